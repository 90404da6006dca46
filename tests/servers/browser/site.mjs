// Opens pages of the site in a window of 1280 pixels without a network, and prints what does not fit as JSON:
// node site.mjs PROGRAM OUTPUT PAGE...
import {basename, join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {launched} from './browser.mjs';

const WIDTH_OF_A_CHARACTER = 0.61; // of monospaced fonts, in heights: this machine may have none

// in the page: what is wider than its column
function measured(width) {
  const code = [...document.querySelectorAll('article pre > code')].map(element => {
    const style = getComputedStyle(element);
    const longest = Math.max(...element.textContent.split('\n').map(line => line.length));
    const needed = longest * width * parseFloat(style.fontSize) + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    return {text: element.textContent, excess: needed - element.clientWidth};
  });
  const pictures = [...document.querySelectorAll('article img')].map(element => ({
    name: element.src.split('/').pop(),
    drawn: element.complete && element.naturalWidth > 0,
    shown: element.getBoundingClientRect().width,
    height: element.getBoundingClientRect().height,
    excess: element.getBoundingClientRect().width - element.closest('article').clientWidth,
  }));
  return {
    wide: document.documentElement.scrollWidth,
    code: code.filter(({excess}) => excess > 0),
    pictures,
    diagrams: document.querySelectorAll('.mermaid').length, // that nothing has drawn
  };
}

const [program, output, ...paths] = process.argv.slice(2);
const browser = await launched(program);
const page = await browser.newPage();
await page.setOfflineMode(true);
await page.setViewport({width: 1280, height: 900});
let asked;
page.on('request', request => asked.add(request.url()));
const seen = {};
for (const path of paths) {
  asked = new Set();
  await page.goto(pathToFileURL(path).href);
  const name = basename(path, '.html');
  seen[name] = {...(await page.evaluate(measured, WIDTH_OF_A_CHARACTER)), asked: [...asked]};
  await page.screenshot({path: join(output, `${name}.png`), fullPage: true});
}
await browser.close();
console.log(JSON.stringify(seen));
