// Knex: its schema builder, migrations, queries, transactions.
'use strict';

const assert = require('node:assert/strict');
const { knex } = require('knex');
const run = require('./tap');

const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
const db = knex({ client: 'pg', connection: { host: PGHOST, port: Number(PGPORT), user: PGUSER, password: PGPASSWORD, database: PGDATABASE } });

async function fresh() {
  await db.schema.dropTableIfExists('kn_items').dropTableIfExists('kn_shops');
  await db.schema.createTable('kn_shops', (table) => {
    table.increments('id');
    table.string('name', 40).notNullable().unique();
    table.text('about').nullable();
    table.timestamps(true, true);
  });
  await db.schema.createTable('kn_items', (table) => {
    table.uuid('id').primary().defaultTo(db.fn.uuid());
    table.integer('shop_id').unsigned().notNullable().references('id').inTable('kn_shops').onDelete('CASCADE');
    table.decimal('price', 8, 2).defaultTo(0).checkPositive('kn_items_price');
    table.enu('kind', ['new', 'old']).defaultTo('new');
    table.binary('raw');
    table.date('made').index();
  });
}

const checks = {};

checks.schema = async () => {
  await fresh();
  assert.deepEqual([await db.schema.hasTable('kn_items'), await db.schema.hasTable('kn_none')], [true, false]);
  assert.equal(await db.schema.hasColumn('kn_items', 'made'), true);
  const columns = await db('kn_items').columnInfo();
  assert.deepEqual(Object.fromEntries(Object.entries(columns).map(([name, about]) => [name, [about.type, about.nullable]])), {
    id: ['uuid', false], shop_id: ['integer', false], price: ['numeric', true], kind: ['text', true], raw: ['bytea', true], made: ['date', true] });
  await db.schema.alterTable('kn_items', (table) => {
    table.bigInteger('stock').notNullable().defaultTo(3);
    table.renameColumn('made', 'built');
    table.dropColumn('raw');
    table.unique(['shop_id', 'built'], { indexName: 'kn_items_once' });
  });
  await db.schema.alterTable('kn_items', (table) => {
    table.dropUnique(['shop_id', 'built'], 'kn_items_once');
    table.string('stock', 20).nullable().alter();
  });
  await db.schema.renameTable('kn_items', 'kn_things');
  await db.schema.renameTable('kn_things', 'kn_items');
  assert.deepEqual(Object.keys(await db('kn_items').columnInfo()).sort(), ['built', 'id', 'kind', 'price', 'shop_id', 'stock']);
};

checks.queries = async () => {
  await fresh();
  const shops = await db('kn_shops').insert([{ name: 'a', about: '[1]' }, { name: 'b' }]).returning(['id', 'name']);
  assert.deepEqual(shops.map((shop) => shop.name), ['a', 'b']);
  await db.batchInsert('kn_items', Array.from({ length: 50 }, (_, n) => ({ shop_id: shops[n % 2].id, price: n + 1, kind: n % 3 ? 'new' : 'old', raw: Buffer.from([n]), made: '2024-05-01' })), 20);
  const totals = await db('kn_items as i').join('kn_shops as s', 's.id', 'i.shop_id').select('s.name').sum({ total: 'i.price' }).count({ n: '*' })
    .where('i.kind', 'new').groupBy('s.name').having(db.raw('count(*)'), '>', 1).orderBy('s.name', 'desc');
  assert.deepEqual(totals, [{ name: 'b', total: '450.00', n: '17' }, { name: 'a', total: '400.00', n: '16' }]);
  assert.deepEqual((await db('kn_shops').where({ name: 'a' }).first('about')).about, '[1]');
  assert.equal((await db('kn_items').whereBetween('price', [10, 20]).whereIn('kind', ['old']).whereNotNull('made')).length, 4);
  assert.equal((await db('kn_items').whereExists(db('kn_shops').whereRaw('kn_shops.id = kn_items.shop_id').where('name', 'a'))).length, 25);
  const ranked = await db.with('ranked', db('kn_items').select('shop_id', 'price').rank('place', 'price', 'shop_id')).select('*').from('ranked').where('place', 1).orderBy('shop_id');
  assert.deepEqual(ranked.map((row) => [row.price, row.place]), [['1.00', '1'], ['2.00', '1']]);
  assert.equal(await db('kn_items').where('price', '>', 48).update({ price: db.raw('?? + ?', ['price', 1]) }), 2);
  await db('kn_shops').insert({ name: 'a' }).onConflict('name').ignore();
  await db('kn_shops').insert({ name: 'a', about: '[2]' }).onConflict('name').merge(['about']);
  assert.deepEqual((await db('kn_shops').where('name', 'a')).map((shop) => shop.about), ['[2]']);
  assert.deepEqual(await db('kn_items').where('kind', 'old').delete(), 17);
  assert.deepEqual(await db('kn_items').select(db.raw('count(*)::int as n')).union(db.select(db.raw('7'))).orderBy('n'), [{ n: 7 }, { n: 33 }]);
  const rows = [];
  for await (const row of db('kn_items').select('price').orderBy('price').limit(3).stream()) {
    rows.push(row.price);
  }
  assert.deepEqual(rows, ['2.00', '3.00', '5.00']);
};

checks.transactions = async () => {
  await fresh();
  await assert.rejects(db.transaction(async (transaction) => {
    await transaction('kn_shops').insert({ name: 'gone' });
    throw new Error('back');
  }), /back/);
  await db.transaction(async (outer) => {
    await outer('kn_shops').insert({ name: 'outer' });
    await outer.transaction((inner) => inner('kn_shops').insert({ name: 'outer' })).catch((error) => assert.equal(error.code, '23505'));
    assert.equal((await outer('kn_shops').forUpdate()).length, 1);
  }, { isolationLevel: 'serializable' });
  assert.deepEqual((await db('kn_shops').select('name')), [{ name: 'outer' }]);
};

// Migrations in memory, in place of files.
const STEPS = {
  '1_make': { up: (db) => db.schema.createTable('kn_steps', (table) => { table.bigIncrements(); table.text('word'); }), down: (db) => db.schema.dropTable('kn_steps') },
  '2_more': { up: (db) => db.schema.table('kn_steps', (table) => { table.boolean('more').defaultTo(true); }), down: (db) => db.schema.table('kn_steps', (table) => { table.dropColumn('more'); }) },
};

checks.migrations = async () => {
  await db.schema.dropTableIfExists('kn_steps').dropTableIfExists('kn_migrations').dropTableIfExists('kn_migrations_lock');
  const migrationSource = { getMigrations: async () => Object.keys(STEPS), getMigrationName: (name) => name, getMigration: async (name) => STEPS[name] };
  const how = { migrationSource, tableName: 'kn_migrations' };
  assert.deepEqual((await db.migrate.latest(how))[1], ['1_make', '2_more']);
  await db('kn_steps').insert({ word: 'w' });
  assert.deepEqual(await db('kn_steps'), [{ id: '1', word: 'w', more: true }]);
  assert.deepEqual((await db.migrate.down(how))[1], ['2_more']);
  assert.equal(await db.migrate.currentVersion(how), '1');
  assert.deepEqual((await db.migrate.rollback(how, true))[1], ['1_make']);
};

run(checks, () => db.destroy());
