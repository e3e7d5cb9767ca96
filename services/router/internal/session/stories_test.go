package session_test

import "strings"

// stories are requests that depend on what others have left, so that it shows if a
// session forgets something on the way between two of them: messages with their
// arguments, requests separated by /.
var stories = []string{
	`Query|write 0 i1 / Query|value 0 i2`,
	`Query|write 0 i1 / Parse|a|value 0 i2 Sync / Bind||a Execute Sync`,
	`Query|begin 0 i1 / Query|write 0 i2 / Query|commit 0 i3 / Query|value 0 i4`,
	`Query|SET a TO v1 / Query|settings 0 i1 / Query|SET tz TO v2 / Query|settings 0 i2`,
	`Query|begin 0 i1 / Query|SET a TO v1 / Query|SAVEPOINT s / Query|SET a TO v2 / Query|ROLLBACK TO s / Query|commit 0 i2 / Query|settings 0 i3 / Query|settings 0 i4`,
	`Query|begin 0 i1 / Query|SET LOCAL a TO v1 / Query|SET b TO v2 / Query|settings 0 i2 / Query|commit 0 i3 / Query|settings 0 i4`,
	`Query|begin 0 i1 / Query|SET a TO v1 / Query|rollback 0 i2 / Query|settings 0 i3`,
	`Query|begin 0 i1 / Query|SET a TO v1 / Query|LONG / Query|commit 0 i2 / Query|settings 0 i3`,
	`Parse|s|SET a TO v1 Sync / Bind||s Execute Sync / Query|settings 0 i1`,
	`Query|begin 0 i0 / Parse|s|SET a TO v1 Sync / Bind||s Sync / Execute Sync / Query|commit 0 i1 / Query|settings 0 i2`,
	`Parse|a|rows 2 i1 Sync / Parse|d|DEALLOCATE a Sync / Bind||d Execute Sync / Bind||a Sync`,
	`Parse|a|rows 2 i1 Sync / Parse|d|DISCARD ALL Sync / Bind||d Execute Bind||a Execute Sync / Bind||a Sync`,
	`Parse|r|LONG Sync / Bind||r Execute Sync / Close|Sr Sync`,
	`Query|begin 0 i1 / Parse|a|rows 5 i2 Sync / Bind|x|a Execute|x|2 Sync / Execute|x|2 Sync / Describe|Px Sync / Execute|x Sync / Query|commit 0 i3`,
	`Parse|a|rows 2 i1 Sync / Query|begin 0 i2 / Parse||DEALLOCATE a Bind Sync / Describe|P Sync / Execute Sync / Execute Sync / Query|rollback 0 i3`,
	`Parse|a|rows 2 i1 Sync / Query|begin 0 i2 / Parse||DEALLOCATE a Bind|x Sync / Parse||value 0 i3 Sync / Execute|x Bind Execute Sync / Query|commit 0 i4`,
	`Query|begin 0 i2 / Parse|a|rows 1 i1 Parse|b|rows 2 i3 Bind|x|b Sync / Describe|Px Close|Sb Sync / Execute|x Sync / Query|commit 0 i3`,
	`Close|Sq Parse|q|rows 2 i1 Sync / Query|begin 0 i2 / Parse||DEALLOCATE q Bind Execute Sync / Execute Sync / Query|rollback 0 i3`,
	`Close|Sq Close|Sy Parse|q|rows 2 i1 Parse|y|DEALLOCATE q Sync / Query|begin 0 i2 / Bind|x|y Sync / Execute|x Sync / Execute|x Sync / Query|rollback 0 i3`,
	`Query|begin 0 i1 / Query|SET a TO v1 / Close|Sp Parse|p|SAVEPOINT s Bind||p Sync / Execute Sync / Query|SET a TO v2 / Query|ROLLBACK TO s / Query|commit 0 i2 / Query|settings 0 i3`,
	`Query|BEGIN ISOLATION LEVEL REPEATABLE READ / Query|COMMIT AND CHAIN / Query|modes 0 i1 / Query|COMMIT AND CHAIN / Query|modes 0 i2 / Query|COMMIT`,
	`Query|BEGIN / Query|SET TRANSACTION READ ONLY / Query|modes 0 i1 / Query|ROLLBACK / Query|modes 0 i2`,
	`Query|BEGIN READ ONLY / Query|rows 1 i1 / Query|SET TRANSACTION ISOLATION LEVEL SERIALIZABLE / Query|ROLLBACK`,
	`Query|BEGIN READ ONLY / Query|value 0 i1 / Parse||rows 2 i2 Bind Execute Sync / Query|modes 0 i3 / Query|COMMIT AND CHAIN / Query|value 0 i4 / Query|COMMIT`,
	`Parse||BEGIN READ WRITE Bind Execute Sync / Execute Sync / Query|ROLLBACK / Query|write 0 i1`,
	`Query|BEGIN / Query|write 0 i1 / Query|COMMIT / Query|BEGIN / Query|ROLLBACK / Query|value 0 i2`,
	`Query|begin 0 i0 / Parse||SELECT set_config('a','v1',false) Bind Sync / Execute Sync / Query|commit 0 i1 / Query|settings 0 i2`,
	`Query|remember m i1 / Query|recall 0 i2`,
	`Query|SET pgpilot.freshness TO '1ms' / Query|SHOW pgpilot.freshness / Query|RESET pgpilot.freshness / Query|SHOW pgpilot.freshness`,
	`Query|begin 0 i2 / Parse||rows 5 i3 Bind Sync / Query|SHOW pgpilot.freshness / Execute Sync / Query|rollback 0 i4`,
	`Parse|o|SHOW pgpilot.freshness Sync / Query|begin 0 i1 / Bind|o|o Sync / Execute|o|1 Sync / Execute|o Close|Po Sync / Query|commit 0 i2`,
	`Query|begin 0 i1 / Query|SET pgpilot.freshness TO '1ms' / Query|rows 1 i2;rollback 0 i3;rows 1 i4 / Query|SHOW pgpilot.freshness`,
	`Query|begin 0 i1 / Query|SET pgpilot.freshness TO '1ms' / Query|rows 1 i2;commit 0 i3;rows 1 i4 / Query|SHOW pgpilot.freshness`,
	`Query|begin 0 i1 / Query|SET LOCAL pgpilot.freshness TO '1ms' / Query|SHOW pgpilot.freshness / Query|commit 0 i2 / Query|SHOW pgpilot.freshness`,
	`Parse|o|SHOW pgpilot.freshness Sync / Query|begin 0 i1 / Bind|o|o|format=1 Sync / Describe|Po Execute|o Sync / Query|commit 0 i2`,
	`Query|LISTEN c / Query|rows 1 i1 / Query|value 0 i2 / Query|UNLISTEN c / Query|rows 1 i3`,
	`Query|begin 0 i1 / Query|write 7 i2 / Query|commit 0 i3 / Query|value 0 i4`,
	`Query|begin 0 i1 / Query|remember m i2 / Query|write 0 i3 / Query|commit 0 i4 / Query|recall 0 i5`,
	`Query|begin 0 i1 / Query|fail w i2 / Query|value 0 i3 / Query|rollback 0 i4 / Query|value 0 i5`,
	`Query|begin 0 i1 / Parse|a|rows 1 i2 Describe|Sa Bind||a Execute Sync / Bind||a Execute Sync / Close|Sa Sync / Query|commit 0 i3`,
	`Query|begin 0 i1 / Parse||rows 1 i2 Describe|S Sync / Bind Execute Sync / Query|commit 0 i3`,
	`Close|Sa Parse|a|rows 2 i1 Sync / Query|begin 0 i2 / Parse||rows 5 i3 Bind Sync / Query|DEALLOCATE a / Execute Sync / Query|rollback 0 i4`,
	`Query|begin 0 i2 / Parse||rows 5 i3 Bind Sync / Query|DEALLOCATE ALL / Execute Sync / Query|rollback 0 i4`,
	`Query|begin 0 i2 / Parse||rows 5 i3 Bind Sync / Query|DEALLOCATE ALL / Describe|P Sync / Query|rollback 0 i4`,
	`Query|PREPARE g AS write 0 i1 / Query|EXECUTE g / Query|value 0 i2 / Query|DEALLOCATE g`,
	`Query|PREPARE g AS rows 2 i1 / Query|begin 0 i2 / Query|EXECUTE g / Query|EXECUTE g / Query|rollback 0 i3 / Query|EXECUTE g`,
	`Query|PREPARE g AS rows 2 i1 / Bind||g Describe|P Execute Sync / Query|begin 0 i2 / Query|DEALLOCATE g / Query|EXECUTE g / Query|rollback 0 i3`,
	`Close|Sa Parse|a|rows 2 i1 Sync / Query|EXECUTE a / Query|begin 0 i2 / Query|EXECUTE a / Close|Sa Sync / Query|PREPARE a AS rows 3 i3 / Query|EXECUTE a / Query|rollback 0 i3`,
}

// alone are those in which tables are altered: a server refuses statements that others
// have prepared then, whether they were described or not.
var alone = []string{
	`Parse|a|rows 2 i1 Describe|Sa Sync / Query|alter 0 i2 / Bind||a Execute Sync`,
	`Parse|a|rows 2 i1|23 Describe|Sa Sync / Bind||a Execute Sync / Query|alter 0 i2 / Bind||a Execute Sync / Query|rows 1 i3`,
}

// forgetting are those in which a server removes prepared statements itself: all of them by a
// message that is not the last of its sequence, or one in a string of statements.
var forgetting = []string{
	`Close|Sa Parse|a|rows 2 i1 Sync / Parse||DISCARD ALL Bind|x Parse||rows 1 i2 Bind|y Execute|x Parse|a|rows 3 i3 Bind||a Execute Sync / Bind||a Execute Sync`,
	`Close|Sa Parse|a|LONG Sync / Query|begin 0 i1 / Parse||DEALLOCATE ALL Bind|x Parse||rows 1 i2 Bind|y Execute|x Parse|a|rows 3 i3 Sync / Bind||a Execute Sync / Query|commit 0 i4 / Bind||a Execute Sync`,
	`Close|Sa Close|Sb Parse|a|rows 2 i1 Parse|b|rows 3 i2 Sync / Query|DEALLOCATE a;rows 1 i3;DEALLOCATE b / Bind||b Execute Sync / Parse|a|rows 1 i4 Sync / Bind||a Execute Sync / Query|EXECUTE a`,
	`Close|Sa Close|Sb Parse|a|rows 2 i1 Parse|b|rows 3 i2 Sync / Query|DEALLOCATE a;fail w i3;DEALLOCATE b / Bind||b Execute Sync / Bind||a Execute Sync / Query|EXECUTE b`,
	`Close|Sa Parse|a|rows 2 i1 Sync / Query|DEALLOCATE a;PREPARE a AS rows 1 i2;DEALLOCATE z / Bind||a Execute Sync / Query|DEALLOCATE a / Bind||a Execute Sync`,
	`Close|Sa Close|Sb Parse|a|rows 2 i1 Sync / Parse||DISCARD ALLBLANK Bind Execute Parse|b|rows 3 i3 Sync / Bind||b Execute Sync / Bind||a Execute Sync`,
	`Close|Sa Close|Sb Parse|a|rows 2 i1 Sync / Parse||DEALLOCATE ALLBLANK Bind Execute Close|Sa Bind|z|z Sync / Parse|a|rows 3 i3 Sync / Bind||a Execute Sync / Query|DISCARD ALL`,
}

// story writes one.
func (c *writer) story(of []string) {
	for group := range strings.SplitSeq(of[c.r.IntN(len(of))], " / ") {
		for _, m := range messagesOf(group) {
			args := strings.Split(m, "|")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "LONG", "rows 1 longBLANK")
				args[i] = strings.ReplaceAll(args[i], "BLANK", strings.Repeat(" ", 1500))
			}
			c.send(args[0], args[1:]...)
		}
		if c.r.IntN(4) == 0 {
			c.send("Query", "rows 1 between")
		}
	}
}

// messagesOf takes a group apart: a word in capitals with a small letter behind the
// first begins a message.
func messagesOf(group string) (out []string) {
	for word := range strings.SplitSeq(group, " ") {
		kind, _, _ := strings.Cut(word, "|")
		if len(out) == 0 || len(kind) > 1 && kind[0] >= 'A' && kind[0] <= 'Z' && kind[1] >= 'a' {
			out = append(out, word)
			continue
		}
		out[len(out)-1] += " " + word
	}
	return out
}
