// Package planted is imported by somebody who must not.
package planted
