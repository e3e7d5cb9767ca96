// Package versus compares two builds of pgpilot, or two settings of one: each round
// measures both, and what else is asked for, one right after the other in an order by
// chance, and what is told is the median of the rounds' ratios with its interval. It is
// the tool for a change of the hot path: differences of a few percent show on a machine
// whose speed changes by more than that from one minute to the next.
package versus
