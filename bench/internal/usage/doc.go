// Package usage reads what processes and the machine have used, from /proc.
package usage
