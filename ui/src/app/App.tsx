import { QueryCache, useQueryClient } from "@tanstack/react-query";
import { Component, useEffect, useState } from "react";
import type { ReactNode } from "react";

import { ApiError } from "../api/client";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Empty, Failure } from "../components/States";
import { MessagesProvider } from "../components/UndoMessage";
import { LiveProvider } from "./live";
import { matchRoute, navigate, useLocation } from "./router";
import type { Route } from "./router";
import { noticeSignedOut, startSession, useSession } from "./session";
import { SignIn } from "./SignIn";
import { Brand, TopBar } from "./TopBar";

/** The frame of every page: sign-in, top bar, the page itself, messages. */
export function App() {
  const session = useSession();
  useSignedOutNotice();
  if (session.kind === "starting") return null;
  if (session.kind === "signed-in") return <Pages />;
  return (
    <>
      <header className="top">
        <Brand />
      </header>
      {session.kind === "signed-out" ? (
        <SignIn key={session.message} message={session.message} />
      ) : (
        <main className="main" id="main">
          <Failure error={session.error} onRetry={() => void startSession()} />
        </main>
      )}
    </>
  );
}

function Pages() {
  const { path } = useLocation();
  const match = matchRoute(path);
  const title = match ? `${match.route.title} · Steadyhelm` : "Steadyhelm";
  useEffect(() => {
    document.title = title;
    window.scrollTo(0, 0);
  }, [title, path]);
  return (
    <MessagesProvider>
      <LiveProvider>
        <TopBar section={match?.route.section ?? null} />
        <main className="main" id="main" tabIndex={-1}>
          <PageBoundary key={path}>
            {match ? <LoadedPage key={match.id} route={match.route} id={match.id} /> : <NotFound />}
          </PageBoundary>
        </main>
      </LiveProvider>
    </MessagesProvider>
  );
}

/** A page as soon as its part of the program is there; an error of loading it is thrown to the boundary. */
function LoadedPage({ route, id }: { readonly route: Route; readonly id: string }) {
  const [error, setError] = useState<unknown>(null);
  const [Page, setPage] = useState(route.getPage);
  useEffect(() => {
    if (route.getPage() === null) route.load().then(() => setPage(route.getPage), setError);
  }, [route]);
  if (error !== null) throw error;
  return Page && <Page id={id} />;
}

function NotFound() {
  return (
    <Card>
      <Empty>
        <p>There is no page at this address.</p>
        <Button onClick={() => navigate("/")}>Go to the overview</Button>
      </Empty>
    </Card>
  );
}

/** Every answer "signed out" leads to the sign-in card, whichever query got it. */
function useSignedOutNotice(): void {
  const client = useQueryClient();
  useEffect(() => {
    const cache: QueryCache = client.getQueryCache();
    return cache.subscribe((event) => {
      if (event.type !== "updated" || event.action.type !== "error") return;
      const error: unknown = event.action.error;
      if (error instanceof ApiError && error.isSignedOut) noticeSignedOut();
    });
  }, [client]);
}

interface BoundaryState {
  readonly error: unknown;
}

/** An error while drawing one page is shown in its place; the top bar goes on. */
class PageBoundary extends Component<{ readonly children: ReactNode }, BoundaryState> {
  override state: BoundaryState = { error: null };

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    // A part of the page that was not loaded yet: the server is away, or has a newer page.
    if (error instanceof Error && /dynamically imported|preload/i.test(error.message)) {
      const gone = new ApiError("GET a part of the page", 0, "unreachable", "The server does not answer.");
      return <Failure error={gone} onRetry={() => window.location.reload()} />;
    }
    return <Failure error={error} onRetry={() => this.setState({ error: null })} />;
  }
}
