package config

// Nearest gives the candidate that s was most likely meant to be, or "" when
// none is close: more than a third of the letters wrong is another word.
func Nearest(s string, candidates []string) string {
	best, bestDistance := "", max(2, len(s)/3)+1
	for _, c := range candidates {
		if d := editDistance(s, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if bestDistance >= len(s) { // nothing of s is left
		return ""
	}
	return best
}

// editDistance is the Levenshtein distance in bytes: the least number of
// insertions, removals and replacements that make a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
