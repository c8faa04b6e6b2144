export default function SettingsPage() {
  return <h1>Settings and health</h1>;
}
