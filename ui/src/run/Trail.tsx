/** Where a page is: links to what it belongs to, then its own name. */
import { Fragment } from "react";
import type { ReactNode } from "react";

import { Icon } from "../components/Icon";
import "./trail.css";

export function Trail({ children }: { children: readonly ReactNode[] }): ReactNode {
  return (
    <nav className="trail" aria-label="Trail">
      {children.map((part, index) => (
        <Fragment key={index}>
          {index > 0 && <Icon name="right" size={10} />}
          {part}
        </Fragment>
      ))}
    </nav>
  );
}
