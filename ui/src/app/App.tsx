import { Suspense, useEffect } from "react";

import { Button } from "../components/Button";
import { Empty } from "../components/States";
import { MessagesProvider } from "../components/UndoMessage";
import { Card } from "../components/Card";
import { href, matchRoute, navigate, useLocation } from "./router";
import { TopBar } from "./TopBar";

/** The frame of every page: top bar, the page itself, messages. */
export function App() {
  const { path } = useLocation();
  const match = matchRoute(path);
  const title = match ? `${match.id || match.route.title} · Steadyhelm` : "Steadyhelm";
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <MessagesProvider>
      <a className="skip" href={href(path)} onClick={(event) => focusMain(event)}>
        Skip to the page
      </a>
      <TopBar section={match?.route.section ?? null} />
      <main className="main" id="main" tabIndex={-1}>
        {match ? (
          <Suspense fallback={null}>
            <match.route.page key={match.id} id={match.id} />
          </Suspense>
        ) : (
          <Card>
            <Empty>
              <p>There is no page at this address.</p>
              <Button onClick={() => navigate("/")}>Go to the overview</Button>
            </Empty>
          </Card>
        )}
      </main>
    </MessagesProvider>
  );
}

function focusMain(event: { preventDefault: () => void }): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
