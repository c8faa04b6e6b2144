import { useRef, useState } from "react";
import type { FormEvent } from "react";

import type { Comment } from "../api/types";
import { useKeys } from "../app/keyboard";
import { useScope } from "../app/session";
import { Button } from "../components/Button";
import { HostileText, escapeHidden } from "../components/HostileText";
import { useNow } from "../components/useNow";
import { formatAgo, formatTime } from "../format";
import { useIncidentActions } from "./useIncidentActions";

/** What people wrote about an incident, and a field for more. Key c. */
export function Comments({ id, comments }: { readonly id: string; readonly comments: readonly Comment[] }) {
  const now = useNow();
  const actions = useIncidentActions(id);
  const mayOperate = useScope("operate");
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useKeys({ c: () => field.current?.focus() }, mayOperate);
  const onSubmit = async (event: FormEvent) => {
    event.preventDefault();
    if (text.trim() && (await actions.comment(text.trim()))) setText("");
  };
  return (
    <>
      <h3>Comments</h3>
      {comments.map((comment) => (
        <article key={comment.id} className="comment">
          <strong>{escapeHidden(comment.by)}</strong>{" "}
          <span className="muted small" title={formatTime(comment.at, now)}>
            {formatAgo(comment.at, now)}
          </span>
          <div>
            <HostileText text={comment.text} />
          </div>
        </article>
      ))}
      {mayOperate && (
        <form className="comment-form" onSubmit={(event) => void onSubmit(event)}>
          <textarea
            ref={field}
            className="field"
            rows={1}
            aria-label="Write a comment"
            placeholder="Write a comment"
            maxLength={2000}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {text.trim() && (
            <Button submit small busyWord={actions.busy === "comments" ? "Saving…" : null}>
              Save comment
            </Button>
          )}
        </form>
      )}
    </>
  );
}
