package novel

import "github.com/google/uuid"

// SlugCandidates returns the slugs that a novel may get, best first: the spelled title, or "novel" for a title without
// letters, then the same with a growing part of the novel's identifier appended.
func SlugCandidates(spelled string, novelID uuid.UUID) []string {
	id := novelID.String()
	if spelled == "" {
		return []string{"novel-" + id[:8], "novel-" + id}
	}
	return []string{spelled, spelled + "-" + id[:8], spelled + "-" + id}
}

// PickSlug returns the first candidate that is not taken, or else the last one. The last one ends with the whole
// identifier. If a title that spells this identifier took it, the unique constraint refuses the command.
func PickSlug(candidates []string, taken map[string]struct{}) string {
	for _, candidate := range candidates {
		if _, ok := taken[candidate]; !ok {
			return candidate
		}
	}
	return candidates[len(candidates)-1]
}
