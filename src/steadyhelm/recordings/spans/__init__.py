"""Read the spans of agents: OpenTelemetry GenAI conventions and OpenInference, recorded or live."""
