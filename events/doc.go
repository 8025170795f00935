// Package events defines what can happen in Novelgate: one plain struct per event, its literal, versioned type
// name, and the envelope in which it is stored.
//
// A stored event is never edited. When the shape of an event has to change, add a struct with the next version
// in its name and an upcaster from the old one (see registry.go); the golden files under testdata hold the bytes
// that have ever been written.
//
// To add an event: one struct here, one line in the registry, one golden file.
package events
