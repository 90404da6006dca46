// A Chromium: the one of this machine that PROGRAM names, or for an empty text the one that npm brought.
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import chromium from '@sparticuz/chromium';
import puppeteer from 'puppeteer-core';

export async function launched(program) {
  const executablePath = program || (await chromium.executablePath());
  return puppeteer.launch({
    executablePath,
    headless: 'shell',
    args: ['--no-sandbox', '--no-zygote', '--disable-gpu', '--hide-scrollbars'],
    env: {...process.env, HOME: tmpdir(), ...(program ? {} : {LD_LIBRARY_PATH: join(tmpdir(), 'al2023', 'lib')})},
  });
}
