// Package planted is imported by a package that must not import it.
package planted
