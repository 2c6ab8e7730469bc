// What the page knows, it asks this server for, or reads from the files beside a static copy.

import { isStatic } from "./address.js";

const kept = new Map();

class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function answer(response) {
  if (response.ok) return response.json();
  let sentence = response.statusText || "the server did not answer";
  try {
    const body = await response.json();
    sentence = typeof body.detail === "string" ? body.detail : body.detail?.[0]?.msg || sentence;
  } catch {
    // Not from our server: the status says it.
  }
  throw new Refused(response.status, sentence);
}

async function asked(path, options) {
  try {
    return await answer(await fetch(path, options));
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(0, "the server does not answer; is it still running?");
  }
}

/** Ask for something; `query` is a list of names and values. */
export function ask(path, query = []) {
  if (isStatic) return asked(`data/${path}.json`);
  const text = new URLSearchParams(query).toString();
  return asked(`/api/${path}${text ? `?${text}` : ""}`);
}

/** Ask once, and keep the answer. */
export function askOnce(path) {
  if (!kept.has(path)) {
    const answered = ask(path);
    kept.set(path, answered);
    answered.catch(() => kept.delete(path));
  }
  return kept.get(path);
}

/** Forget answers that begin so. */
export function forget(start = "") {
  for (const path of kept.keys()) if (path.startsWith(start)) kept.delete(path);
}

/** Forget names, which others may have changed; the samples of a feature stay what they are, and so do its figures. */
export function forgetNames(besides = "") {
  for (const path of kept.keys()) if (!/\/(strip|figures)/.test(path) && path !== besides) kept.delete(path);
}

export function send(method, path, body) {
  const isFile = body instanceof Blob;
  return asked(`/api/${path}`, {
    method,
    body: isFile ? body : JSON.stringify(body),
    headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
  });
}

/** Where a sample's image is; `of` is what the overview says of the set. */
export function picture(set, of, row) {
  return isStatic ? `media/${set}/${row}.${of.extension}` : `/media/${set}/${row}?v=${of.key}`;
}
