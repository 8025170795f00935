package events

// ProjectionEventSkipped records that staff made a projection skip an event that it could not apply. A rebuild skips
// the same event.
type ProjectionEventSkipped struct {
	Projection  string `json:"projection"`
	EventID     string `json:"eventId"`
	EventSource string `json:"eventSource"` // (eventId, eventSource) identifies the event
	EventType   string `json:"eventType"`
	// position of the event at the time of the skip, as "transaction/ordinal"; a restore may change it
	Position string `json:"position"`
	// Reason is given by staff. The error is not recorded: it may quote personal data, which could not be erased here.
	Reason string `json:"reason"`
}

// Type implements Event.
func (ProjectionEventSkipped) Type() string { return "projection.event_skipped.v1" }
func (ProjectionEventSkipped) sealed()      {}
