import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState } from "react";
import type { KeyboardEvent } from "react";

import { get } from "../api/client";
import { keys } from "../api/queries";
import type { SearchHit, SearchResults } from "../api/types";
import { useDismiss } from "../components/Choice";
import { Severity } from "../components/Glyph";
import { HostileText } from "../components/HostileText";
import { Icon } from "../components/Icon";
import { useNow } from "../components/useNow";
import { formatAgo } from "../format";
import { useKeys } from "./keyboard";
import { agentPath, href, navigate, runPath } from "./router";

const WAIT_MS = 150;

function addressOf(hit: SearchHit): string {
  if (hit.kind === "run" && hit.run !== null) return href(runPath(hit.run));
  if (hit.kind === "agent" && hit.agent) return href(agentPath(hit.agent.key));
  return href("/runs", { q: hit.text, agent: hit.agent?.key });
}

/** Find a run by the beginning of its id or goal, an agent or a tool. `/` focuses it. */
export function Search() {
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const frame = useDismiss<HTMLDivElement>(open, () => {
    setOpen(false);
    field.current?.blur();
  });
  const listId = useId();
  const now = useNow();
  useKeys({ "/": () => field.current?.focus() });
  useEffect(() => {
    const timer = window.setTimeout(() => {
      setAsked(text.trim());
      setAt(0);
    }, WAIT_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  const { data, isError } = useQuery({
    queryKey: keys.search(asked),
    queryFn: ({ signal }) => get<SearchResults>("/search", { q: asked }, signal),
    enabled: open && asked !== "",
  });
  const hits = data?.hits ?? [];
  const choose = (hit: SearchHit) => {
    setOpen(false);
    setText("");
    field.current?.blur();
    navigate(addressOf(hit));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by && hits.length) {
      event.preventDefault();
      setAt((at + by + hits.length) % hits.length);
    } else if (event.key === "Enter") {
      const hit = hits[at];
      if (hit) choose(hit);
    }
  };
  const shown = open && asked !== "" && (data !== undefined || isError);
  return (
    <div className="search" ref={frame}>
      <Icon name="search" />
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label="Find a run, goal or tool"
        aria-expanded={shown}
        aria-controls={listId}
        aria-activedescendant={shown && hits.length ? `${listId}-${at}` : undefined}
        placeholder="Find a run, goal or tool"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onFocus={() => setOpen(true)}
        onChange={(event) => {
          setText(event.target.value);
          setOpen(true);
        }}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      <div className="popover search-list" id={listId} role="listbox" aria-label="Results" hidden={!shown}>
        {isError && <div className="option bad-text">The search failed.</div>}
        {data && hits.length === 0 && <div className="option muted">Nothing begins with “{asked}”</div>}
        {hits.map((hit, index) => (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the field above has the keys
          <div
            key={`${hit.kind} ${hit.run ?? ""} ${hit.agent?.key ?? ""} ${hit.text}`}
            id={`${listId}-${index}`}
            className="option"
            role="option"
            aria-selected={index === at}
            tabIndex={-1}
            onClick={() => choose(hit)}
          >
            <span className="muted small search-kind">{hit.kind}</span>
            <HostileText text={hit.text} oneLine />
            {hit.agent && hit.kind !== "agent" && (
              <span className="muted small">
                <HostileText text={hit.agent.name} oneLine />
              </span>
            )}
            <span className="end muted small">
              {hit.severity && <Severity severity={hit.severity} bare />} {hit.at !== null && formatAgo(hit.at, now)}
            </span>
          </div>
        ))}
      </div>
    </div>
  );
}
