import type { PageProps } from "../app/router";

export default function AgentPage({ id }: PageProps) {
  return <h1>{id}</h1>;
}
