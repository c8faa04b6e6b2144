/** Save a run as a run file. A link would not carry the header secret, so the page asks for it itself. */
import { ApiError, apiUrl, readSecret, SECRET_HEADER } from "../api/client";

export async function downloadRun(key: number, runId: string): Promise<void> {
  const path = `/runs/${key}/file`;
  const secret = readSecret();
  const answer = await fetch(apiUrl(path), {
    headers: secret ? { [SECRET_HEADER]: secret } : {},
    credentials: "same-origin",
    cache: "no-store",
  }).catch(() => null);
  if (!answer?.ok) {
    const status = answer?.status ?? 0;
    const words = status ? `The server answered ${status}.` : "The server does not answer.";
    throw new ApiError(`GET ${path}`, status, "download", words);
  }
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = `${runId.replace(/[^\w.-]+/g, "_").slice(0, 80) || "run"}.jsonl`;
  link.click();
  URL.revokeObjectURL(address);
}
