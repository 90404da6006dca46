// Draws diagrams by Mermaid, and writes each as an SVG file: node draw.mjs PROGRAM OUTPUT, with an object of names and
// texts as JSON on standard input.
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {launched} from './browser.mjs';

// in the page; labels of HTML are not drawn in pictures
async function drawn(name, text) {
  mermaid.initialize({
    startOnLoad: false,
    theme: 'neutral',
    deterministicIds: true,
    htmlLabels: false,
    fontFamily: 'Arial, Helvetica, "Liberation Sans", sans-serif',
    flowchart: {useMaxWidth: false},
    sequence: {useMaxWidth: false},
    state: {useMaxWidth: false},
  });
  const {svg} = await mermaid.render(name, text);
  const picture = new DOMParser().parseFromString(svg, 'text/html').querySelector('svg');
  picture.setAttribute('style', 'background: #fff'); // also on a dark page
  return new XMLSerializer().serializeToString(picture);
}

const [program, output] = process.argv.slice(2);
const browser = await launched(program);
const page = await browser.newPage();
await page.addScriptTag({path: 'node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js'});
for (const [name, text] of Object.entries(JSON.parse(readFileSync(0, 'utf8'))))
  writeFileSync(join(output, `${name}.svg`), `${await page.evaluate(drawn, name, text)}\n`);
await browser.close();
