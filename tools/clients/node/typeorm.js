// TypeORM: schemas by synchronisation, repositories, relations, query builders, transactions, migrations.
'use strict';

const assert = require('node:assert/strict');
const { Between, DataSource, EntitySchema, In, IsNull, Like, Table, TableIndex } = require('typeorm');
const run = require('./tap');

const Author = new EntitySchema({
  name: 'Author',
  tableName: 'to_authors',
  columns: {
    id: { type: 'int', primary: true, generated: true },
    name: { type: 'varchar', length: 60, unique: true },
    born: { type: 'date', nullable: true },
    motto: { type: 'text', default: '' },
    joined: { type: 'timestamptz', createDate: true },
    changed: { type: 'timestamptz', updateDate: true },
    version: { type: 'int', version: true },
  },
  relations: { books: { type: 'one-to-many', target: 'Book', inverseSide: 'author', cascade: true } },
});

const Book = new EntitySchema({
  name: 'Book',
  tableName: 'to_books',
  columns: {
    id: { type: 'uuid', primary: true, generated: 'uuid' },
    title: { type: 'text' },
    price: { type: 'numeric', precision: 10, scale: 2, default: 0 },
    pages: { type: 'smallint', nullable: true },
    sold: { type: 'boolean', default: false },
    deleted: { type: 'timestamp', deleteDate: true, nullable: true },
  },
  indices: [{ name: 'to_books_title', columns: ['title'] }],
  checks: [{ name: 'to_books_price', expression: '"price" >= 0' }],
  relations: {
    author: { type: 'many-to-one', target: 'Author', inverseSide: 'books', onDelete: 'CASCADE', nullable: false },
  },
});

const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;

function source(entities = [Author, Book], more = {}) {
  return new DataSource({
    type: 'postgres', host: PGHOST, port: Number(PGPORT), username: PGUSER, password: PGPASSWORD, database: PGDATABASE,
    entities, uuidExtension: 'pgcrypto', installExtensions: false, ...more,
  });
}

async function connected(body, ...how) {
  const data = source(...how);
  await data.initialize();
  try {
    return await body(data);
  } finally {
    await data.destroy();
  }
}

// With empty tables.
const fresh = (body) => connected(async (data) => {
  await data.synchronize(true);
  return body(data, data.getRepository('Author'), data.getRepository('Book'));
});

const checks = {};

checks.schema = () => fresh(async (data) => {
  // What it made is what it reads back: nothing is left to change.
  const { upQueries } = await data.driver.createSchemaBuilder().log();
  assert.deepEqual(upQueries.map((query) => query.query), []);
  const runner = data.createQueryRunner();
  const table = await runner.getTable('to_books');
  await runner.release();
  assert.deepEqual(table.columns.map((column) => column.name).sort(), ['authorId', 'deleted', 'id', 'pages', 'price', 'sold', 'title']);
  assert.deepEqual(table.foreignKeys.map((key) => [key.referencedTableName, key.onDelete]), [['to_authors', 'CASCADE']]);
  assert.deepEqual(table.checks.map((check) => check.name), ['to_books_price']);
  assert.deepEqual(table.indices.map((index) => index.name), ['to_books_title']);
});

checks.changed_schema = async () => {
  await fresh(async (data, authors) => { await authors.save({ name: 'before' }); });
  const columns = { ...Author.options.columns, email: { type: 'varchar', nullable: true } };
  const changed = new EntitySchema({ ...Author.options, columns });
  await connected(async (data) => {
    await data.synchronize();
    const [author] = await data.getRepository('Author').find();
    assert.deepEqual([author.name, author.email], ['before', null]);
  }, [changed, Book]);
};

checks.entities = () => fresh(async (data, authors, books) => {
  const saved = await authors.save({ name: 'Ada', born: '1815-12-10', motto: 'a "b" c', books: [{ title: 'One', price: '12.50', pages: 7 }, { title: 'Two' }] });
  assert.equal(saved.version, 1);
  const found = await authors.findOne({ where: { name: 'Ada' }, relations: { books: true }, order: { books: { title: 'ASC' } } });
  assert.deepEqual(found.books.map((book) => [book.title, book.price, book.pages, book.sold]), [['One', '12.50', 7, false], ['Two', '0.00', null, false]]);
  assert.deepEqual([found.born, found.motto], ['1815-12-10', 'a "b" c']);
  assert.ok(Math.abs(found.joined - new Date()) < 60_000);
  found.name = 'Ada L.';
  await authors.save(found);
  assert.equal((await authors.findOneByOrFail({ id: found.id })).version, 2);
  await books.softDelete({ title: 'One' });
  assert.deepEqual((await books.find()).map((book) => book.title), ['Two']);
  assert.equal((await books.find({ withDeleted: true })).length, 2);
  await authors.delete(found.id);
  assert.equal(await books.count({ withDeleted: true }), 0);
});

checks.conditions = () => fresh(async (data, authors, books) => {
  const author = await authors.save({ name: 'x' });
  const rows = Array.from({ length: 40 }, (_, n) => ({ title: `t${n}`, price: String(n), pages: n % 2 ? n : null, author }));
  await books.save(rows, { chunk: 10 });
  assert.equal(await books.countBy({ pages: IsNull() }), 20);
  assert.equal(await books.countBy({ price: Between('5', '9') }), 5);
  assert.equal(await books.countBy({ title: In(['t1', 't2', 'no']) }), 2);
  assert.equal(await books.countBy([{ title: Like('t1%') }, { price: Between('30', '31') }]), 13);
  const [page, all] = await books.findAndCount({ order: { price: 'DESC' }, skip: 10, take: 5, relations: { author: true } });
  assert.deepEqual([page.map((book) => book.title), all], [['t29', 't28', 't27', 't26', 't25'], 40]);
});

checks.builder = () => fresh(async (data, authors, books) => {
  const inserted = await authors.createQueryBuilder().insert().values([{ name: 'a' }, { name: 'b' }]).returning(['id', 'name']).execute();
  assert.deepEqual(inserted.raw.map((row) => row.name), ['a', 'b']);
  await authors.createQueryBuilder().insert().values({ name: 'a', motto: 'new' }).orUpdate(['motto'], ['name']).execute();
  assert.equal((await authors.findOneByOrFail({ name: 'a' })).motto, 'new');
  await authors.upsert([{ name: 'b', born: '2000-01-01' }], ['name']);
  const [a, b] = await authors.find({ order: { name: 'ASC' } });
  await books.save([{ title: 'p', price: '3', author: a }, { title: 'q', price: '4', author: a }, { title: 'r', price: '9', author: b }]);
  const sums = await books.createQueryBuilder('book').leftJoin('book.author', 'author').select('author.name', 'name')
    .addSelect('SUM(book.price)', 'total').addSelect('COUNT(*)', 'count').groupBy('author.name').having('COUNT(*) > :n', { n: 0 })
    .orderBy('total', 'ASC').getRawMany();
  assert.deepEqual(sums, [{ name: 'a', total: '7.00', count: '2' }, { name: 'b', total: '9.00', count: '1' }]);
  const dear = await authors.createQueryBuilder('author').where((query) => 'author.id IN ' + query.subQuery()
    .select('book.authorId').from('Book', 'book').where('book.price > :price').getQuery()).setParameter('price', 5).getMany();
  assert.deepEqual(dear.map((author) => author.name), ['b']);
  const changed = await books.createQueryBuilder().update().set({ price: () => 'price * 2' }).where('price < :most', { most: 9 }).returning('price').execute();
  assert.deepEqual([changed.affected, changed.raw.map((row) => row.price).sort()], [2, ['6.00', '8.00']]);
  await books.increment({ title: 'r' }, 'price', 1);
  assert.equal((await books.findOneByOrFail({ title: 'r' })).price, '10.00');
});

checks.transactions = () => fresh(async (data, authors) => {
  await assert.rejects(data.transaction(async (manager) => {
    await manager.save('Author', { name: 'gone' });
    throw new Error('back');
  }), /back/);
  assert.equal(await authors.count(), 0);
  await data.transaction('SERIALIZABLE', async (manager) => {
    await manager.save('Author', { name: 'outer' });
    await manager.transaction(async (inner) => { await inner.save('Author', { name: 'inner' }); throw new Error('inner'); }).catch(() => {});
    assert.equal((await manager.find('Author', { lock: { mode: 'pessimistic_write' } })).length, 1);
  });
  assert.deepEqual((await authors.find()).map((author) => author.name), ['outer']);
  await assert.rejects(authors.insert({ name: 'outer' }), (error) => error.code === '23505' || error.driverError.code === '23505');
});

class First1700000000000 {
  async up(runner) {
    await runner.createTable(new Table({ name: 'to_steps', columns: [
      { name: 'id', type: 'bigint', isPrimary: true, isGenerated: true, generationStrategy: 'increment' },
      { name: 'word', type: 'varchar(20)', default: "'none'" },
      { name: 'kind', type: 'integer', isNullable: true },
    ] }), true);
    await runner.createIndex('to_steps', new TableIndex({ name: 'to_steps_kind', columnNames: ['kind', 'word'], isUnique: true }));
  }
  async down(runner) { await runner.dropTable('to_steps'); }
}

class Second1700000000001 {
  async up(runner) {
    await runner.renameColumn('to_steps', 'word', 'name');
    await runner.query('ALTER TABLE "to_steps" ADD COLUMN "at" timestamp NOT NULL DEFAULT now()');
  }
  async down(runner) {
    await runner.dropColumn('to_steps', 'at');
    await runner.renameColumn('to_steps', 'name', 'word');
  }
}

checks.migrations = () => connected(async (data) => {
  await data.query('DROP TABLE IF EXISTS to_steps, to_migrations');
  assert.deepEqual((await data.runMigrations()).map((step) => step.name), ['First1700000000000', 'Second1700000000001']);
  await data.query('INSERT INTO to_steps (kind) VALUES (1)');
  assert.deepEqual((await data.query('SELECT id, name, kind FROM to_steps')), [{ id: '1', name: 'none', kind: 1 }]);
  await data.undoLastMigration();
  assert.deepEqual(await data.query('SELECT * FROM to_steps'), [{ id: '1', word: 'none', kind: 1 }]);
  await data.undoLastMigration();
  assert.deepEqual(await data.runMigrations({ transaction: 'each' }).then((steps) => steps.length), 2);
}, [], { migrations: [First1700000000000, Second1700000000001], migrationsTableName: 'to_migrations' });

run(checks);
