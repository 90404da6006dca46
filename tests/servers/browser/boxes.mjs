// Opens a picture within a notebook and the same as a page of its own, as wide as there, and prints as JSON where each
// element of both stands and how it looks: node boxes.mjs PROGRAM OUTPUT PAGE NOTEBOOK...
import {basename, join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {launched} from './browser.mjs';

const [program, output, page, ...notebooks] = process.argv.slice(2);
const WIDTHS = [1200, 850]; // in the second a page has two columns, and the cell of a notebook room for one
const browser = await launched(program);

// in the page: the elements of the picture, which is the body of a page of its own
function boxes() {
  const root = document.querySelector('.acidlib-body') ?? document.body;
  const from = root.getBoundingClientRect();
  const looks = ['color', 'backgroundColor', 'fontFamily', 'fontSize', 'fontWeight', 'lineHeight', 'textAlign', 'display', 'float'];
  const elements = [...root.querySelectorAll('*')].filter(element => !['STYLE', 'WBR'].includes(element.tagName));
  return {
    width: (document.querySelector('.acidlib-report') ?? document.body).getBoundingClientRect().width,
    elements: elements.map(element => {
      const box = element.getBoundingClientRect();
      const style = getComputedStyle(element);
      const place = [box.x - from.x, box.y - from.y, box.width, box.height].map(Math.round);
      const words = `${element.tagName.toLowerCase()} ${element.textContent.trim().slice(0, 30)}`;
      // the width of a notebook is no whole number, and some fonts follow it
      const rounded = text => text.replace(/[\d.]+px/, size => `${parseFloat(size).toFixed(1)}px`);
      return [words, ...place, ...looks.map(name => rounded(style[name]))];
    }),
  };
}

const seen = {};
for (const notebook of notebooks) {
  const name = basename(notebook, '.html');
  const opened = await browser.newPage();
  await opened.setRequestInterception(true);
  opened.on('request', request => (request.url().startsWith('http') ? request.abort() : request.continue()));
  seen[name] = [];
  for (const width of WIDTHS) {
    await opened.setViewport({width, height: 900});
    await opened.goto(pathToFileURL(notebook).href, {waitUntil: 'domcontentloaded'});
    const inside = await opened.evaluate(boxes);
    await opened.screenshot({path: join(output, `${name}-${width}.png`)});
    await opened.goto(pathToFileURL(page).href);
    await opened.setViewport({width: Math.round(inside.width), height: 900});
    const alone = await opened.evaluate(boxes);
    seen[name].push({inside, alone});
  }
  await opened.close();
}
await browser.close();
console.log(JSON.stringify(seen));
