// Data from this server, or from the files of a static copy.

import { isStatic } from "./address.js";

const cache = new Map();
const inline = document.getElementById("copy"); // a static copy in a single file holds its data and images itself
const inlined = inline && JSON.parse(inline.textContent);

class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  if (response.ok) return response.json();
  let message = response.statusText || "The server did not answer.";
  try {
    const body = await response.json();
    message = typeof body.detail === "string" ? body.detail : body.detail?.[0]?.msg || message;
  } catch {
    // The answer is not JSON, so not from our server; the status text must do.
  }
  throw new RequestError(response.status, message);
}

/** Request JSON from an address of this server. */
export async function request(path, options) {
  try {
    return await answer(await fetch(path, options));
  } catch (error) {
    if (error instanceof RequestError) throw error;
    throw new RequestError(0, "The server does not answer. Is it still running?");
  }
}

/** Request data; `query` is a list of [name, value] pairs. */
export function ask(path, query = []) {
  if (inlined) return path in inlined.data ? Promise.resolve(inlined.data[path]) : Promise.reject(new RequestError(404, "This is not in the copy."));
  if (isStatic) return request(`data/${path}.json`);
  const text = new URLSearchParams(query).toString();
  return request(`/api/${path}${text ? `?${text}` : ""}`);
}

/** Request data once and cache the answer. */
export function askOnce(path) {
  if (!cache.has(path)) {
    const pending = ask(path);
    cache.set(path, pending);
    pending.catch(() => cache.delete(path));
  }
  return cache.get(path);
}

/** Remove cached answers whose path starts like this. */
export function forget(start = "") {
  for (const path of cache.keys()) if (path.startsWith(start)) cache.delete(path);
}

/** Remove cached answers that contain names, which others may have changed. Strips and figures contain none. */
export function forgetNames(except = "") {
  for (const path of cache.keys()) if (!/\/(strip|figures)/.test(path) && path !== except) cache.delete(path);
}

export function send(method, path, body) {
  const isFile = body instanceof Blob;
  return request(`/api/${path}`, {
    method,
    body: isFile ? body : JSON.stringify(body),
    headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
  });
}

/** Describe samples in short, by their rows; a static copy describes only those that have a page. */
export async function describe(set, rows) {
  if (!rows.length) return [];
  if (isStatic) {
    const { samples } = await askOnce(`sets/${set}/samples`);
    const known = new Map(samples.map((sample) => [sample.row, sample]));
    return rows.map((row) => known.get(row)).filter(Boolean);
  }
  return (await send("POST", `sets/${set}/samples`, { rows })).samples;
}

/** Return the address of a sample's image; `info` is the overview of its set. */
export function picture(set, info, row) {
  if (inlined) return inlined.media[`${set}/${row}`] || "";
  return isStatic ? `media/${set}/${row}.${info.extension}` : `/media/${set}/${row}?v=${info.key}`;
}
