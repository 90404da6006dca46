// Opens pages in Chromium as people do, and prints what it saw as JSON: node look.mjs PROGRAM OUTPUT PAGE...
// PROGRAM is Chromium, or empty for the one that npm brought; OUTPUT a folder for pictures and prints.
import {basename, join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {launched} from './browser.mjs';

const [program, output, ...paths] = process.argv.slice(2);
const browser = await launched(program);

// in the page: what does not fit, and the text that is hardest to read
function measured() {
  const box = element => element.getBoundingClientRect();
  const shown = [...document.querySelectorAll('body *')].filter(element => element.checkVisibility());
  const isHidden = element => getComputedStyle(element).clipPath !== 'none' || element.closest('thead');
  const outside = shown.filter(element => !isHidden(element) && box(element).right > innerWidth + 1);
  const numbers = colour => colour.match(/[\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).map(v => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (numbers(colour).length < 4) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  let contrast = 21;
  for (const element of shown) {
    const hasText = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!hasText) continue;
    const style = getComputedStyle(element);
    const front = light(style.color);
    const back = light(behind(element));
    contrast = Math.min(contrast, (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05));
  }
  const words = document.createRange();
  words.selectNodeContents(document.querySelector('h1'));
  return {
    headline: box(words).width,
    wide: document.documentElement.scrollWidth,
    outside: outside.map(element => `${element.tagName} ${element.textContent.slice(0, 40)}`),
    paper: getComputedStyle(document.documentElement).backgroundColor,
    contrast,
  };
}

function tables(node) {
  return (node.role === 'table') + (node.children ?? []).reduce((sum, child) => sum + tables(child), 0);
}

const seen = {};
for (const path of paths) {
  const name = basename(path, '.html');
  const page = await browser.newPage();
  const asked = [];
  const said = [];
  page.on('request', request => asked.push(request.url()));
  page.on('console', message => said.push(message.text()));
  page.on('pageerror', error => said.push(String(error)));
  const looks = [];
  for (const scheme of ['light', 'dark'])
    for (const width of [400, 1200]) {
      await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
      await page.setViewport({width, height: 900});
      await page.goto(pathToFileURL(path).href);
      const tree = await page.accessibility.snapshot({interestingOnly: false});
      looks.push({scheme, width, tables: tables(tree), ...(await page.evaluate(measured))});
      await page.screenshot({path: join(output, `${name}-${scheme}-${width}.png`), fullPage: true});
    }
  await page.emulateMediaType('print');
  const print = await page.evaluate(measured);
  const pdf = await page.pdf({path: join(output, `${name}.pdf`), format: 'A4', printBackground: false});
  seen[name] = {asked: [...new Set(asked)], said, looks, print, printed: pdf.length};
  await page.close();
}
await browser.close();
console.log(JSON.stringify(seen));
