const PATHS = {
  cross: "m3 3 8 8m0-8-8 8",
  down: "m3 5 4 4 4-4",
  left: "M9 3 5 7l4 4",
  right: "m5 3 4 4-4 4",
  search: "M6 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9Zm3.3 7.8 3.2 3.2",
  pause: "M4.5 3v8M9.5 3v8",
  play: "M4 2.5v9L11 7Z",
  table: "M1.5 2.5h11v9h-11Zm0 3h11M6 5.5v6",
  copy: "M4.5 4.5h7v8h-7Zm-2 5v-8h7",
  plus: "M7 2.5v9M2.5 7h9",
  download: "M7 1.5v7m-3-3 3 3 3-3M2 12.5h10",
  external: "M5.5 2.5h-3v9h9v-3M8 1.5h4.5V6m0-4.5L6.5 7.5",
  sun: "M7 4.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6ZM7 .5V2m0 10v1.5M.5 7H2m10 0h1.5M2.4 2.4l1 1m7.2 7.2 1 1m0-9.2-1 1M3.4 10.6l-1 1",
  moon: "M11.8 8.6A5.3 5.3 0 0 1 5.4 2.2a5.3 5.3 0 1 0 6.4 6.4Z",
  screen: "M1.5 2.5h11v7h-11Zm3.5 10h4m-2-3v3",
} as const;

export type IconName = keyof typeof PATHS;

/** A small drawing beside or instead of a word; the control it is in carries the name. */
export function Icon({ name, size = 14 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      viewBox="0 0 14 14"
      width={size}
      height={size}
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
