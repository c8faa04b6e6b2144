import type { PageProps } from "../app/router";

export default function RunPage({ id }: PageProps) {
  return <h1>{id}</h1>;
}
