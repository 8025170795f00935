// Package events defines the events of Novelgate: one plain struct per event with its literal, versioned type name, and
// the envelope in which it is stored.
//
// A stored event is never edited. To change the shape of an event, add a struct with the next version in its name and
// an upcaster from the old one (see registry.go). The golden files under testdata hold the stored bytes of every
// version.
//
// To add an event: one struct here, one line in the registry, one golden file.
package events
