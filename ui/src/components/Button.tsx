import type { ButtonHTMLAttributes, ReactNode } from "react";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "type"> {
  readonly kind?: "default" | "primary" | "quiet" | "destructive";
  readonly small?: boolean;
  readonly icon?: boolean;
  readonly submit?: boolean;
  /** The word while the action runs, such as "Saving…"; the width stays. */
  readonly busyWord?: string | null;
  /** The key that does the same. */
  readonly hotkey?: string;
  readonly children: ReactNode;
}

/** A button. When it is disabled, `title` must say why. */
export function Button({
  kind = "default",
  small = false,
  icon = false,
  submit = false,
  busyWord = null,
  hotkey,
  className = "",
  children,
  disabled,
  ...rest
}: ButtonProps) {
  const names = [
    "button",
    kind === "default" ? "" : `button-${kind}`,
    small ? "button-small" : "",
    icon ? "button-icon" : "",
    className,
  ];
  return (
    <button
      {...rest}
      type={submit ? "submit" : "button"}
      className={names.filter(Boolean).join(" ")}
      disabled={disabled || busyWord !== null}
      aria-busy={busyWord !== null || undefined}
      aria-keyshortcuts={hotkey}
    >
      {busyWord ?? children}
      {hotkey && busyWord === null && <kbd aria-hidden="true">{hotkey}</kbd>}
    </button>
  );
}
