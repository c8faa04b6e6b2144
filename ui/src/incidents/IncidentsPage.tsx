export default function IncidentsPage() {
  return <h1>Incidents</h1>;
}
