// node-postgres: pools, types, transactions, cursors, streams, COPY, errors.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { pipeline } = require('node:stream/promises');
const { Readable, Writable } = require('node:stream');
const pg = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');
const copy = require('pg-copy-streams');
const run = require('./tap');

const ENDLESS = 'SELECT count(*) FROM generate_series(1, 3000000) AS a(i), generate_series(1, 3000000) AS b(j) WHERE i + j < 0';
const checks = {};

// Runs `body` with a connection of its own; where to is in the environment.
async function connected(body, settings = {}) {
  const client = new pg.Client({ ssl: false, ...settings });
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}

async function table(client, name, columns) {
  await client.query(`DROP TABLE IF EXISTS ${name}`);
  await client.query(`CREATE TABLE ${name} (${columns})`);
}

const refused = (code) => (error) => {
  assert.equal(error.code, code, `${error.code}, expected ${code}: ${error.message}`);
  return true;
};

checks.connecting = () =>
  connected(async (client) => {
    assert.deepEqual((await client.query('SHOW application_name')).rows, [{ application_name: 'checks' }]);
    assert.ok(client.processID > 0);
  }, { application_name: 'checks' });

checks.tls = () =>
  connected(async (client) => {
    assert.equal(client.connection.stream.encrypted, true);
    assert.deepEqual((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
  }, { ssl: { ca: fs.readFileSync(process.env.PGSSLROOTCERT) } });

checks.wrong_password = () => assert.rejects(connected(() => {}, { password: 'wrong' }), refused('28P01'));

checks.simple = () =>
  connected(async (client) => {
    const results = await client.query("SELECT 1 AS a; SELECT 'x' AS b, NULL AS c; SELECT 1 WHERE false");
    assert.deepEqual(results.map((result) => result.rows), [[{ a: 1 }], [{ b: 'x', c: null }], []]);
    assert.deepEqual(results.map((result) => [result.command, result.rowCount]), [['SELECT', 1], ['SELECT', 1], ['SELECT', 0]]);
    assert.equal((await client.query('')).rows.length, 0);
  });

checks.parameters = () =>
  connected(async (client) => {
    const { rows } = await client.query({ text: 'SELECT $1::int + $2::int, $3::text, $4::int', values: [40, 2, "x' --", null], rowMode: 'array' });
    assert.deepEqual(rows, [[42, "x' --", null]]);
  });

checks.prepared = () =>
  connected(async (client) => {
    await table(client, 'js_prepared', 'id int PRIMARY KEY, word text');
    for (let id = 0; id < 50; id++) {
      await client.query({ name: 'insert', text: 'INSERT INTO js_prepared VALUES ($1, $2)', values: [id, `w${id}`] });
    }
    for (let id = 0; id < 50; id++) {
      const { rows } = await client.query({ name: 'look up', text: 'SELECT word FROM js_prepared WHERE id = $1', values: [id] });
      assert.deepEqual(rows, [{ word: `w${id}` }]);
    }
  });

const TYPES = [
  ['boolean', true, true],
  ['smallint', -32768, -32768],
  ['integer', 2147483647, 2147483647],
  ['bigint', '-9223372036854775808', '-9223372036854775808'],
  ['real', 1.5, 1.5],
  ['double precision', 1e300, 1e300],
  ['numeric(38,10)', '1234567890123456789012345678.0123456789', '1234567890123456789012345678.0123456789'],
  ['text', 'grüße, 世界 🦀', 'grüße, 世界 🦀'],
  ['varchar(20)', '', ''],
  ['char(5)', 'ab', 'ab   '],
  ['bytea', Buffer.from([0, 255, 92]), Buffer.from([0, 255, 92])],
  ['date', '2024-02-29', new Date(2024, 1, 29)],
  ['timestamp', '1999-12-31 23:59:59.999', new Date(1999, 11, 31, 23, 59, 59, 999)],
  ['timestamptz', new Date(Date.UTC(1969, 6, 20, 20, 17, 40)), new Date(Date.UTC(1969, 6, 20, 20, 17, 40))],
  ['uuid', '00112233-4455-6677-8899-aabbccddeeff', '00112233-4455-6677-8899-aabbccddeeff'],
];

// In text: the driver cannot read the binary format.
checks.types = () =>
  connected(async (client) => {
    await table(client, 'js_types', `id int PRIMARY KEY, ${TYPES.map(([type], at) => `c${at} ${type}`).join(', ')}`);
    const insert = `INSERT INTO js_types VALUES ($1, ${TYPES.map((_, at) => `$${at + 2}`).join(', ')})`;
    await client.query(insert, [1, ...TYPES.map(([, value]) => value)]);
    await client.query(insert, [2, ...TYPES.map(() => null)]);
    const { rows } = await client.query({ text: 'SELECT * FROM js_types ORDER BY id', rowMode: 'array' });
    assert.deepEqual(rows, [[1, ...TYPES.map(([, , found]) => found)], [2, ...TYPES.map(() => null)]]);
  });

checks.transactions = () =>
  connected(async (client) => {
    await table(client, 'js_transactions', 'id int PRIMARY KEY');
    const ids = async () => (await client.query('SELECT id FROM js_transactions ORDER BY id')).rows.map((row) => row.id);
    await client.query('BEGIN');
    await client.query('INSERT INTO js_transactions VALUES (1)');
    await client.query('ROLLBACK');
    assert.deepEqual(await ids(), []);
    await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
    await client.query('INSERT INTO js_transactions VALUES (2)');
    await client.query('SAVEPOINT before');
    await assert.rejects(client.query('INSERT INTO js_transactions VALUES (2)'), refused('23505'));
    await assert.rejects(client.query('SELECT 1'), refused('25P02'));
    await client.query('ROLLBACK TO SAVEPOINT before');
    await client.query('INSERT INTO js_transactions VALUES (3)');
    await client.query('COMMIT');
    assert.deepEqual(await ids(), [2, 3]);
  });

checks.retry = () =>
  connected((first) =>
    connected(async (second) => {
      await table(first, 'js_retry', 'id int PRIMARY KEY, n int');
      await first.query('INSERT INTO js_retry VALUES (1, 0)');
      let again = 0;
      for (;;) {
        try {
          await second.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
          await second.query('SELECT n FROM js_retry');
          if (again === 0) {
            await first.query('UPDATE js_retry SET n = n + 1');
          }
          await second.query('UPDATE js_retry SET n = n + 1');
          await second.query('COMMIT');
          break;
        } catch (error) {
          assert.ok(['40001', '40P01'].includes(error.code), `${error.code}: ${error.message}`);
          await second.query('ROLLBACK');
          again++;
        }
      }
      assert.equal(again, 1);
      assert.deepEqual((await first.query('SELECT n FROM js_retry')).rows, [{ n: 2 }]);
    }));

checks.cursor = () =>
  connected(async (client) => {
    const cursor = client.query(new Cursor('SELECT i FROM generate_series(1, $1::int) AS g(i) ORDER BY i', [250]));
    const sizes = [];
    for (let rows = await cursor.read(100); rows.length > 0; rows = await cursor.read(100)) {
      sizes.push(rows.length);
    }
    assert.deepEqual(sizes, [100, 100, 50]);
    const left = client.query(new Cursor('SELECT i FROM generate_series(1, 1000) AS g(i)'));
    await left.read(10);
    await left.close();
    assert.deepEqual((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
  });

checks.copy = () =>
  connected(async (client) => {
    await table(client, 'js_copy', 'id int PRIMARY KEY, word text');
    const lines = Array.from({ length: 10000 }, (_, id) => `${id}\tw${id}\n`);
    await pipeline(Readable.from(lines), client.query(copy.from('COPY js_copy FROM STDIN')));
    let read = '';
    const out = client.query(copy.to('COPY (SELECT * FROM js_copy ORDER BY id) TO STDOUT'));
    await pipeline(out, new Writable({ write(chunk, _, done) { read += chunk; done(); } }));
    assert.equal(read, lines.join(''));
    const spoiled = pipeline(Readable.from(['1\tx\n']), client.query(copy.from('COPY js_copy FROM STDIN')));
    await assert.rejects(spoiled, refused('23505'));
    assert.deepEqual((await client.query('SELECT count(*)::int AS n FROM js_copy')).rows, [{ n: 10000 }]);
  });

checks.cancel = () =>
  connected((client) =>
    connected(async (other) => {
      const { processID, secretKey } = client;
      const running = assert.rejects(client.query(ENDLESS), refused('57014'));
      await new Promise((resolve) => setTimeout(resolve, 500));
      const started = Date.now();
      const cancelling = new pg.Connection();
      cancelling.connect(Number(process.env.PGPORT), process.env.PGHOST);
      cancelling.on('connect', () => cancelling.cancel(processID, secretKey));
      cancelling.on('error', () => {});
      await running;
      assert.ok(Date.now() - started < 5000, 'the cancelled query went on');
      assert.deepEqual((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
      assert.deepEqual((await other.query('SELECT 1 AS one')).rows, [{ one: 1 }]);
    }));

checks.statement_timeout = () =>
  connected((client) => assert.rejects(client.query(ENDLESS), refused('57014')), { statement_timeout: 300 });

checks.errors = () =>
  connected(async (client) => {
    await table(client, 'js_errors', 'id int PRIMARY KEY, n int NOT NULL CHECK (n > 0)');
    await client.query('INSERT INTO js_errors VALUES (1, 1)');
    for (const [code, text, values] of [
      ['23505', 'INSERT INTO js_errors VALUES ($1, 1)', [1]],
      ['23502', 'INSERT INTO js_errors VALUES ($1, $2)', [2, null]],
      ['23514', 'INSERT INTO js_errors VALUES ($1, $2)', [2, -1]],
      ['42P01', 'SELECT * FROM js_nowhere', []],
      ['42703', 'SELECT nothing FROM js_errors', []],
      ['22P02', 'SELECT $1::int', ['abc']],
      ['22012', 'SELECT 1 / $1::int', [0]],
      ['42601', 'SELEC', []],
    ]) {
      await assert.rejects(client.query(text, values), refused(code), text);
    }
    const error = await client.query('INSERT INTO js_errors VALUES (1, 1)').catch((raised) => raised);
    assert.equal(error.severity, 'ERROR');
    assert.match(error.message, /js_errors_pkey/);
    assert.deepEqual((await client.query('SELECT count(*)::int AS n FROM js_errors')).rows, [{ n: 1 }]);
  });

checks.metadata = () =>
  connected(async (client) => {
    await table(client, 'js_metadata', 'a int8 PRIMARY KEY, b varchar(9), c numeric(10,2)');
    const { fields } = await client.query('SELECT a, b, c FROM js_metadata ORDER BY b');
    assert.deepEqual(fields.map(({ name, dataTypeID, dataTypeModifier }) => [name, dataTypeID, dataTypeModifier]),
      [['a', 20, -1], ['b', 1043, 13], ['c', 1700, 10 * 65536 + 2 + 4]]);
  });

checks.large = () =>
  connected(async (client) => {
    let [rows, sum] = [0, 0];
    const stream = client.query(new QueryStream("SELECT i, 'row' AS word FROM generate_series(1, 1000000) AS g(i)", [], { batchSize: 5000, highWaterMark: 5000 }));
    for await (const row of stream) {
      rows += 1;
      sum += Number(row.i);
    }
    assert.deepEqual([rows, sum], [1000000, 500000500000]);
  });

checks.concurrency = async () => {
  const pool = new pg.Pool({ ssl: false, max: 16 });
  try {
    await table(pool, 'js_concurrency', 'id int PRIMARY KEY, n int');
    const insert = (id) => pool.query('INSERT INTO js_concurrency VALUES ($1, $1 * 2)', [id]);
    await Promise.all(Array.from({ length: 500 }, (_, id) => insert(id)));
    assert.deepEqual((await pool.query('SELECT sum(n)::int AS sum FROM js_concurrency')).rows, [{ sum: 249500 }]);
    assert.equal(pool.totalCount, 16);
  } finally {
    await pool.end();
  }
};

run(checks);
