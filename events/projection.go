package events

// ProjectionEventSkipped records that a member of staff let a projection go on without an event that it could not
// apply. A rebuild leaves out the same event.
type ProjectionEventSkipped struct {
	Projection  string `json:"projection"`
	EventID     string `json:"eventId"`
	EventSource string `json:"eventSource"` // (eventId, eventSource) identifies the event
	EventType   string `json:"eventType"`
	// of the event when it was skipped, as "transaction/ordinal"; a restore may change it
	Position string `json:"position"`
	// Reason is what staff say. The error is left out: it may quote what a person wrote, which could never be erased here.
	Reason string `json:"reason"`
}

// Type implements Event.
func (ProjectionEventSkipped) Type() string { return "projection.event_skipped.v1" }
func (ProjectionEventSkipped) sealed()      {}
