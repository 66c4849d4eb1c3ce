// Drizzle: typed tables, transactions, prepared statements, its migrator.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { and, between, desc, eq, gt, ilike, inArray, isNull, sql } = require('drizzle-orm');
const { drizzle } = require('drizzle-orm/node-postgres');
const { migrate } = require('drizzle-orm/node-postgres/migrator');
const { bigint, boolean, integer, numeric, pgTable, serial, text, timestamp, uuid, varchar } = require('drizzle-orm/pg-core');
const { Pool } = require('pg');
const run = require('./tap');

const cities = pgTable('dz_cities', {
  id: serial('id').primaryKey(),
  name: varchar('name', { length: 80 }).notNull().unique(),
  people: bigint('people', { mode: 'number' }),
  about: text('about'),
  seen: timestamp('seen', { withTimezone: true }).defaultNow().notNull(),
});
const streets = pgTable('dz_streets', {
  id: uuid('id').primaryKey().defaultRandom(),
  city: integer('city_id').notNull().references(() => cities.id, { onDelete: 'cascade' }),
  name: text('name').notNull(),
  metres: numeric('metres', { precision: 9, scale: 1 }),
  paved: boolean('paved').default(true).notNull(),
  words: varchar('words'),
});
const pool = new Pool({ ssl: false });
const db = drizzle(pool);

// As drizzle-kit writes it.
const SCHEMA = `
CREATE TABLE "dz_cities" (
	"id" serial PRIMARY KEY NOT NULL,
	"name" varchar(80) NOT NULL,
	"people" bigint,
	"about" text,
	"seen" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "dz_cities_name_unique" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "dz_streets" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"city_id" integer NOT NULL,
	"name" text NOT NULL,
	"metres" numeric(9, 1),
	"paved" boolean DEFAULT true NOT NULL,
	"words" varchar
);
--> statement-breakpoint
ALTER TABLE "dz_streets" ADD CONSTRAINT "dz_streets_city_id_dz_cities_id_fk" FOREIGN KEY ("city_id") REFERENCES "public"."dz_cities"("id") ON DELETE cascade ON UPDATE no action;
`;

async function fresh() {
  await db.execute(sql`DROP SCHEMA IF EXISTS drizzle CASCADE`);
  await db.execute(sql`DROP TABLE IF EXISTS dz_streets, dz_cities`);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle-'));
  try {
    fs.mkdirSync(path.join(folder, 'meta'));
    fs.writeFileSync(path.join(folder, '0000_first.sql'), SCHEMA);
    const entries = [{ idx: 0, version: '7', when: 1700000000000, tag: '0000_first', breakpoints: true }];
    fs.writeFileSync(path.join(folder, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }));
    await migrate(db, { migrationsFolder: folder });
    // The second time there is nothing to do.
    await migrate(db, { migrationsFolder: folder });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

const checks = {};

checks.migrations = async () => {
  await fresh();
  const { rows } = await db.execute(sql`SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations`);
  assert.deepEqual(rows, [{ n: 1 }]);
};

checks.queries = async () => {
  await fresh();
  const [rome, bern] = await db.insert(cities).values([{ name: 'Rome', people: 2_800_000, about: 'old' }, { name: 'Bern' }]).returning();
  assert.ok(rome.seen instanceof Date && rome.about === 'old' && bern.people === null);
  await db.insert(streets).values(Array.from({ length: 30 }, (_, n) => ({ city: n % 3 ? rome.id : bern.id, name: `street ${n}`, metres: `${n}.5`, words: n % 2 ? 'b,"c' : null })));
  const found = await db.select({ city: cities.name, n: sql`count(*)`.mapWith(Number), most: sql`max(${streets.metres})` })
    .from(streets).innerJoin(cities, eq(cities.id, streets.city)).where(gt(streets.metres, '3')).groupBy(cities.name).orderBy(desc(sql`count(*)`));
  assert.deepEqual(found, [{ city: 'Rome', n: 18, most: '29.5' }, { city: 'Bern', n: 9, most: '27.5' }]);
  assert.equal((await db.select().from(streets).where(inArray(streets.name, ['street 0', 'street 1', 'no']))).length, 2);
  assert.equal((await db.select().from(streets).where(and(isNull(streets.words), between(streets.metres, '1', '9.5'), ilike(streets.name, 'STREET%')))).length, 4);
  const ranks = db.$with('ranks').as(db.select({ name: streets.name, place: sql`row_number() over (partition by ${streets.city} order by ${streets.metres})`.mapWith(Number).as('place') }).from(streets));
  assert.equal((await db.with(ranks).select().from(ranks).where(eq(ranks.place, 1))).length, 2);
  const statement = db.select().from(streets).where(eq(streets.name, sql.placeholder('name'))).prepare('by_name');
  for (const n of [4, 5, 6]) {
    assert.equal((await statement.execute({ name: `street ${n}` }))[0].metres, `${n}.5`);
  }
  assert.equal(await db.$count(streets, eq(streets.paved, true)), 30);
};

checks.changes = async () => {
  await fresh();
  const [{ id }] = await db.insert(cities).values({ name: 'Oslo', people: 1 }).returning({ id: cities.id });
  await db.insert(cities).values({ name: 'Oslo' }).onConflictDoNothing();
  await db.insert(cities).values({ name: 'Oslo', people: 5 }).onConflictDoUpdate({ target: cities.name, set: { people: sql`${cities.people} + excluded.people` } });
  assert.deepEqual(await db.update(cities).set({ about: 'new' }).where(eq(cities.id, id)).returning({ people: cities.people, about: cities.about }), [{ people: 6, about: 'new' }]);
  await db.insert(streets).values({ city: id, name: 'x' });
  await assert.rejects(db.insert(streets).values({ city: 99, name: 'x' }), (error) => (error.cause ?? error).code === '23503');
  assert.equal((await db.delete(cities).where(eq(cities.id, id)).returning()).length, 1);
  assert.equal((await db.select().from(streets)).length, 0);
};

checks.transactions = async () => {
  await fresh();
  await assert.rejects(db.transaction(async (transaction) => {
    await transaction.insert(cities).values({ name: 'gone' });
    transaction.rollback();
  }));
  await db.transaction(async (outer) => {
    await outer.insert(cities).values({ name: 'outer' });
    await outer.transaction((inner) => inner.insert(cities).values({ name: 'outer' })).catch((error) => assert.equal((error.cause ?? error).code, '23505'));
    assert.equal((await outer.select().from(cities).for('update')).length, 1);
  }, { isolationLevel: 'repeatable read', accessMode: 'read write' });
  assert.deepEqual((await db.select({ name: cities.name }).from(cities)), [{ name: 'outer' }]);
};

run(checks, () => pool.end());
