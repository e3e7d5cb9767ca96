// Does what users of node-postgres do. See package clients.
'use strict'

const assert = require('node:assert/strict')
const { pipeline } = require('node:stream/promises')
const { Readable, Writable } = require('node:stream')
const { setTimeout: pause } = require('node:timers/promises')
const { once } = require('node:events')
const { Client, Pool } = require('pg')
const copy = require('pg-copy-streams')

const schema = 'client_node'

async function connect() {
  const client = new Client() // libpq's environment variables
  await client.connect()
  return client
}

async function value(client, query) {
  const result = await client.query({ rowMode: 'array', ...query })
  return result.rows[0][0]
}

// Statements with a name are prepared once per connection.
const read = (id) => ({ name: 'read', text: `SELECT n FROM ${schema}.v WHERE id = $1`, values: [id] })
const write = (id, n) => ({
  name: 'write',
  text: `INSERT INTO ${schema}.v VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n`,
  values: [id, n],
})

const steps = {
  async connect(client) {
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE; CREATE SCHEMA ${schema}`)
    await client.query(`CREATE TABLE ${schema}.v (id int PRIMARY KEY, n int NOT NULL, word text)`)
  },

  async reads(client) {
    for (let i = 0; i < 500; i++) {
      const text = 'SELECT $1::int + sum(n)::int FROM generate_series(1, 3) n'
      assert.equal(await value(client, { name: 'sum', text, values: [i] }), i + 6)
    }
  },

  async 'own values'(client) {
    for (let i = 0; i < 200; i++) {
      await client.query(write(1, i))
      assert.equal(await value(client, read(1)), i)
    }
    // A pool's connections are sessions of their own: what one has written the others may
    // see later, each its own at once.
    const pool = new Pool({ max: 5 })
    await Promise.all(
      Array.from({ length: 5 }, async (_, n) => {
        const mine = await pool.connect()
        for (let i = 0; i < 40; i++) {
          await mine.query(write(10 + n, i))
          assert.equal(await value(mine, read(10 + n)), i)
        }
        mine.release()
      }),
    )
    await pool.end()
  },

  async transaction(client) {
    for (let i = 0; i < 20; i++) {
      await client.query('BEGIN')
      await client.query(write(1, 1000 + i))
      assert.equal(await value(client, read(1)), 1000 + i)
      await client.query('COMMIT')
      assert.equal(await value(client, read(1)), 1000 + i)
    }
    await client.query('BEGIN')
    await client.query(write(1, -1))
    await client.query('ROLLBACK')
    assert.equal(await value(client, read(1)), 1019)
  },

  async savepoint(client) {
    await client.query('BEGIN')
    await client.query(write(1, 2000))
    await client.query('SAVEPOINT here')
    await assert.rejects(client.query(`INSERT INTO ${schema}.v VALUES ($1, 0)`, [1]), { code: '23505' })
    await assert.rejects(client.query(read(1)), { code: '25P02' })
    await client.query('ROLLBACK TO SAVEPOINT here')
    await client.query(`UPDATE ${schema}.v SET n = n + $1 WHERE id = 1`, [1])
    await client.query('COMMIT')
    assert.equal(await value(client, read(1)), 2001)
  },

  // Queries that are not waited for queue in the driver, which has no batches.
  async batch(client) {
    for (let round = 0; round < 10; round++) {
      const writes = Array.from({ length: 20 }, (_, i) => client.query(write(100 + i, round)))
      const reads = Array.from({ length: 20 }, (_, i) => value(client, read(100 + i)))
      await Promise.all(writes)
      assert.deepEqual(await Promise.all(reads), Array(20).fill(round))
    }
    const results = await client.query(`UPDATE ${schema}.v SET n = 7 WHERE id = 1; SELECT n FROM ${schema}.v WHERE id = 1`)
    assert.deepEqual(results.map((r) => r.rowCount), [1, 1])
    assert.equal(results[1].rows[0].n, 7)
  },

  async cancel(client) {
    const watcher = await connect()
    const asleep = {
      text: "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE $1",
      values: ['%node sleeps'],
    }
    const cancelled = assert.rejects(
      client.query(`INSERT INTO ${schema}.v SELECT 900, 0 FROM pg_sleep(50) -- node sleeps`),
      { code: '57014' },
    )
    while ((await value(watcher, asleep)) === 0) await pause(5)
    // The driver has no call for it but speaks the message.
    const canceller = new Client()
    canceller.connection.connect(client.port, client.host)
    await once(canceller.connection, 'connect')
    canceller.connection.cancel(client.processID, client.secretKey)
    await cancelled
    canceller.connection.stream.destroy()
    await watcher.end()
    assert.equal(await value(client, { text: `SELECT count(*)::int FROM ${schema}.v WHERE id = $1`, values: [900] }), 0)
  },

  async copy(client) {
    const lines = Array.from({ length: 2000 }, (_, i) => `${10000 + i}\t${i}\t${'ä'.repeat(i % 50)}\n`)
    await pipeline(Readable.from(lines), client.query(copy.from(`COPY ${schema}.v (id, n, word) FROM STDIN`)))
    const chunks = []
    const sink = new Writable({
      write(chunk, _, done) {
        chunks.push(chunk)
        done()
      },
    })
    await pipeline(client.query(copy.to(`COPY (SELECT id, n, word FROM ${schema}.v WHERE id >= 10000 ORDER BY id) TO STDOUT`)), sink)
    assert.equal(Buffer.concat(chunks).toString(), lines.join(''))
    // Rows that are there already.
    await assert.rejects(
      pipeline(Readable.from(lines), client.query(copy.from(`COPY ${schema}.v (id, n, word) FROM STDIN`))),
      { code: '23505' },
    )
    assert.equal(await value(client, { text: `SELECT count(*)::int FROM ${schema}.v WHERE id >= $1`, values: [10000] }), 2000)
  },

  async listen(client) {
    await client.query('LISTEN node_news')
    const sender = await connect()
    for (let i = 0; i < 10; i++) {
      const heard = once(client, 'notification')
      await sender.query("SELECT pg_notify('node_news', $1)", [`number ${i}`])
      const [notification] = await heard
      assert.equal(notification.channel, 'node_news')
      assert.equal(notification.payload, `number ${i}`)
    }
    await sender.end()
    await client.query('UNLISTEN node_news')
  },

  async 'temporary table'(client) {
    await client.query('CREATE TEMP TABLE mine (n int)')
    for (let i = 0; i < 20; i++) {
      await client.query({ name: 'add', text: 'INSERT INTO mine VALUES ($1)', values: [i] })
      assert.equal(await value(client, { name: 'count', text: 'SELECT count(*)::int FROM mine WHERE n >= $1', values: [0] }), i + 1)
    }
  },

  async search_path(client) {
    const names = [`${schema}_a`, `${schema}_b`]
    for (const [i, name] of names.entries()) {
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE; CREATE SCHEMA ${name}`)
      await client.query(`CREATE TABLE ${name}.t AS SELECT ${i} AS n`)
    }
    for (let round = 0; round < 5; round++) {
      for (const [i, name] of names.entries()) {
        await client.query(`SET search_path TO ${name}`)
        assert.equal(await value(client, { name: 'path', text: 'SELECT n FROM t WHERE n >= $1', values: [0] }), i)
      }
    }
  },
}

async function main() {
  for (const [name, step] of Object.entries(steps)) {
    const client = await connect()
    try {
      await step(client)
    } catch (error) {
      error.message = `${name}: ${error.message}`
      throw error
    }
    await client.end()
    console.log('ok', name)
  }
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
