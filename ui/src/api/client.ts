/** Requests to the server. Every answer is JSON; every failure becomes an `ApiError`. */

import type { Problem } from "./types";

const SECRET_KEY = "steadyhelm.secret";
export const SECRET_HEADER = "Steadyhelm-Secret";

/** A request that failed: what was asked for, and what the server said. */
export class ApiError extends Error {
  readonly status: number;
  readonly request: string;
  readonly code: string;

  constructor(request: string, status: number, code: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.request = request;
    this.status = status;
    this.code = code;
  }

  get isSignedOut(): boolean {
    return this.status === 401;
  }

  /** True when no answer came. */
  get isUnreachable(): boolean {
    return this.status === 0 || this.status >= 502;
  }

  /** True when asking again later can help. */
  get isPassing(): boolean {
    return this.isUnreachable || this.status === 429;
  }
}

/** Cookies ignore ports, so a second secret travels in a header; it lives as long as the tab's session. */
export function readSecret(): string | null {
  try {
    return sessionStorage.getItem(SECRET_KEY);
  } catch {
    return null;
  }
}

export function keepSecret(secret: string | null): void {
  try {
    if (secret === null) sessionStorage.removeItem(SECRET_KEY);
    else sessionStorage.setItem(SECRET_KEY, secret);
  } catch {
    // Without session storage the page stays signed out, which the sign-in card says.
  }
}

const CHANGE_HEADER = "Steadyhelm-Change";
const changeNumbers = new WeakMap<object, number>();

/** Return the number of the latest change that an answer is sure to contain; -1 when that is not known. */
export function readChangeNumber(data: unknown): number {
  if (typeof data !== "object" || data === null) return -1;
  const pages = (data as { pages?: unknown }).pages;
  if (!Array.isArray(pages)) return changeNumbers.get(data) ?? -1;
  return Math.min(...pages.map(readChangeNumber));
}

export type QueryValue = string | number | boolean | null | undefined | readonly string[];

/** Return `path` below the API's root, with the given parameters; empty ones are left out, lists joined by commas. */
export function apiUrl(path: string, params: Readonly<Record<string, QueryValue>> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    const text = Array.isArray(value) ? value.join(",") : String(value);
    if (text) search.set(name, text);
  }
  const text = search.toString();
  return `./api/v1${path}${text ? `?${text}` : ""}`;
}

async function send<T>(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const secret = readSecret();
  if (secret) headers[SECRET_HEADER] = secret;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const named = `${method} ${url.replace(/^\./, "")}`;
  let answer: Response;
  try {
    answer = await fetch(url, {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(named, 0, "unreachable", "The server does not answer.");
  }
  if (answer.status === 204) return undefined as T;
  if (!answer.ok) throw await readError(named, answer);
  try {
    const data = (await answer.json()) as T;
    const number = answer.headers.get(CHANGE_HEADER);
    if (number !== null && typeof data === "object" && data !== null) changeNumbers.set(data, Number(number));
    return data;
  } catch {
    throw new ApiError(named, answer.status, "not_json", "The server sent something that is not JSON.");
  }
}

async function readError(named: string, answer: Response): Promise<ApiError> {
  let code = `http_${answer.status}`;
  let message = `The server answered ${answer.status}.`;
  try {
    const body: unknown = await answer.json();
    if (typeof body === "object" && body !== null) {
      const problem = body as Partial<Problem>;
      if (typeof problem.code === "string") code = problem.code;
      if (typeof problem.message === "string") message = problem.message;
    }
  } catch {
    // An error page of a proxy is not JSON; the status says enough.
  }
  return new ApiError(named, answer.status, code, message);
}

/** Fetch JSON. The caller names the record type; the server's schema is the source of these types. */
export function get<T>(
  path: string,
  params?: Readonly<Record<string, QueryValue>>,
  signal?: AbortSignal,
): Promise<T> {
  return send<T>("GET", apiUrl(path, params), undefined, signal);
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return send<T>("POST", apiUrl(path), body);
}

export function del<T>(path: string): Promise<T> {
  return send<T>("DELETE", apiUrl(path));
}
