import type { ReactNode } from "react";

export interface Column<Row> {
  readonly key: string;
  readonly head: ReactNode;
  readonly cell: (row: Row) => ReactNode;
  readonly number?: boolean;
  readonly width?: string;
}

interface TableProps<Row> {
  /** What the table holds; read out, not shown. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string | number;
  readonly onOpen?: (row: Row) => void;
  readonly selected?: string | number | null;
}

/** A table of all its rows: sticky head, numbers at the right. Long lists use virtual rows instead. */
export function Table<Row>({ caption, columns, rows, rowKey, onOpen, selected = null }: TableProps<Row>) {
  return (
    <div className="table-wrap" tabIndex={-1}>
      <table className="table">
        <caption className="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                className={column.number ? "number" : undefined}
                style={column.width ? { width: column.width } : undefined}
              >
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const key = rowKey(row);
            return (
              <tr
                key={key}
                className={onOpen ? "openable" : undefined}
                aria-selected={selected === null ? undefined : key === selected}
                onClick={onOpen && (() => onOpen(row))}
              >
                {columns.map((column) => (
                  <td key={column.key} className={column.number ? "number" : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
