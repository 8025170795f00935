// Package catalogue loads novels from a CSV file into a running service over its partner interface, and comments on
// them. Everything about a request derives from the row or the ordinal, so a second run repeats the first one exactly
// and the service must recognise every request.
package catalogue
