// Draws the top of a page: node shot.mjs PROGRAM PICTURE PAGE. What the page asks of servers is not there.
import {pathToFileURL} from 'node:url';
import {launched} from './browser.mjs';

const [program, picture, path] = process.argv.slice(2);
const browser = await launched(program);
const page = await browser.newPage();
await page.setRequestInterception(true);
page.on('request', request => (request.url().startsWith('http') ? request.abort() : request.continue()));
await page.setViewport({width: 1100, height: 900});
await page.goto(pathToFileURL(path).href, {waitUntil: 'domcontentloaded'});
await page.screenshot({path: picture});
await browser.close();
