package request

import (
	"math"
	"strings"

	"github.com/agnivade/levenshtein"
)

// NearestPostMember returns the member of a comment that an unknown name resembles most, "" if it resembles none.
func NearestPostMember(unknown string) string { return nearestMember(unknown, postNames) }

// NearestNovelMember is NearestPostMember for an upsert.
func NearestNovelMember(unknown string) string { return nearestMember(unknown, novelNames) }

// nearestMember compares the letters of names without case. A name resembles another one if it is a part of it, such as
// user of username, and else if their edit distance is less than half of the longer name.
func nearestMember(unknown string, names []string) (nearest string) {
	const shortestPart = 4
	sent, best := letters(unknown), math.MaxInt
	for _, name := range names {
		known := letters(name)
		distance, longer := levenshtein.ComputeDistance(sent, known), max(len(sent), len(known))
		switch {
		case min(len(sent), len(known)) >= shortestPart && (strings.Contains(sent, known) || strings.Contains(known, sent)):
		case 2*distance < longer:
			distance += maxMember // behind all parts
		default:
			continue
		}
		if distance < best {
			nearest, best = name, distance
		}
	}
	return nearest
}

// maxMember is more than the length of an unknown name, which httpkit.Clip cuts.
const maxMember = 1000

// letters returns the ASCII letters of a name in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
