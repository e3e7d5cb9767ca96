package e2e

import "testing"

// What is prepared means what it means now, whoever has had the same text prepared before on the
// connection that is shared (rule 17): PostgreSQL takes types of parameters from the tables of the moment.
func TestParseSeesTheTablesOfNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, newCluster(t), narrow(1))
	first := r.connect()
	first.must("CREATE TABLE kept (n int)")
	prepare := func(c *client, sql string) (params []uint32, columns int) {
		t.Helper()
		d, err := c.conn.Prepare(timeout(t), "s", sql, nil)
		if err != nil {
			t.Fatalf("prepare %q: %v", sql, err)
		}
		return d.ParamOIDs, len(d.Fields)
	}
	const (
		adds  = "INSERT INTO kept VALUES ($1) RETURNING *"
		int4  = 23
		text  = 25
		limit = "5000000000"
	)
	if params, columns := prepare(first, adds); len(params) != 1 || params[0] != int4 || columns != 1 {
		t.Fatalf("parameters %v, %d columns", params, columns)
	}
	first.must("ALTER TABLE kept ALTER n TYPE text, ADD m int")
	second := r.connect()
	if params, columns := prepare(second, adds); len(params) != 1 || params[0] != text || columns != 2 {
		t.Errorf("parameters %v, %d columns; they are those of before", params, columns)
	}
	if res := second.conn.ExecPrepared(timeout(t), "s", [][]byte{[]byte(limit)}, nil, nil).Read(); res.Err != nil || len(res.Rows) != 1 || string(res.Rows[0][0]) != limit {
		t.Errorf("%v, %v", res.Rows, res.Err)
	}
	// The one who was told otherwise never gets rows of another shape.
	if res := first.conn.ExecPrepared(timeout(t), "s", [][]byte{[]byte("1")}, nil, nil).Read(); sqlstate(res.Err) != "0A000" {
		t.Errorf("%v, %v; want 0A000", res.Rows, res.Err)
	}
	first.must("DEALLOCATE s")
	if params, columns := prepare(first, adds); len(params) != 1 || params[0] != text || columns != 2 {
		t.Errorf("prepared again: parameters %v, %d columns", params, columns)
	}
}
