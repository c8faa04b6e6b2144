import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";
import "./app/app.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { createQueryClient } from "./api/queries";
import { App } from "./app/App";
import { preloadPage } from "./app/router";
import { startSession } from "./app/session";

const client = createQueryClient();
preloadPage(client);
void startSession();
const root = document.getElementById("page");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
