// Package report turns measured groups into figures, a Markdown page and charts.
//
// Figures of one round are noisy, and the machine's speed drifts; what two targets did
// in the same group is compared as a ratio, and the ratios of all rounds are summarised
// by their median with a confidence interval that assumes nothing about their distribution
// (order statistics, golang.org/x/perf/benchmath).
package report
