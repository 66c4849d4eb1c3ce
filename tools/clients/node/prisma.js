// Prisma: its client over node-postgres, on tables as Prisma Migrate makes them.
'use strict';

const assert = require('node:assert/strict');
const { PrismaPg } = require('@prisma/adapter-pg');
const { Pool } = require('pg');
const { Prisma, PrismaClient } = require('./prisma-client');
const run = require('./tap');

const pool = new Pool({ ssl: false });
const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
const connectionString = `postgresql://${PGUSER}:${encodeURIComponent(PGPASSWORD)}@${PGHOST}:${PGPORT}/${PGDATABASE}`;
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) });

// As `prisma migrate diff --from-empty --to-schema schema.prisma --script` writes it.
const SCHEMA = `
CREATE TABLE "pr_users" (
    "id" SERIAL NOT NULL,
    "email" TEXT NOT NULL,
    "name" TEXT,
    "role" TEXT NOT NULL DEFAULT 'READER',
    "score" DECIMAL(10,2) NOT NULL DEFAULT 0,
    "made" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "labels" TEXT[] DEFAULT ARRAY['new']::TEXT[],
    "marks" INTEGER[],

    CONSTRAINT "pr_users_pkey" PRIMARY KEY ("id")
);
CREATE TABLE "pr_posts" (
    "id" BIGSERIAL NOT NULL,
    "title" VARCHAR(200) NOT NULL,
    "shown" BOOLEAN NOT NULL DEFAULT false,
    "weight" DOUBLE PRECISION,
    "raw" BYTEA,
    "author_id" INTEGER NOT NULL,

    CONSTRAINT "pr_posts_pkey" PRIMARY KEY ("id")
);
CREATE TABLE "pr_tags" (
    "name" TEXT NOT NULL,

    CONSTRAINT "pr_tags_pkey" PRIMARY KEY ("name")
);
CREATE TABLE "_PostToTag" (
    "A" BIGINT NOT NULL,
    "B" TEXT NOT NULL,

    CONSTRAINT "_PostToTag_AB_pkey" PRIMARY KEY ("A","B")
);
CREATE UNIQUE INDEX "pr_users_email_key" ON "pr_users"("email");
CREATE INDEX "pr_posts_shown_title_idx" ON "pr_posts"("shown", "title");
CREATE INDEX "_PostToTag_B_index" ON "_PostToTag"("B");
ALTER TABLE "pr_posts" ADD CONSTRAINT "pr_posts_author_id_fkey" FOREIGN KEY ("author_id") REFERENCES "pr_users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "_PostToTag" ADD CONSTRAINT "_PostToTag_A_fkey" FOREIGN KEY ("A") REFERENCES "pr_posts"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "_PostToTag" ADD CONSTRAINT "_PostToTag_B_fkey" FOREIGN KEY ("B") REFERENCES "pr_tags"("name") ON DELETE CASCADE ON UPDATE CASCADE;
`;

async function fresh() {
  await pool.query('DROP TABLE IF EXISTS "_PostToTag", pr_posts, pr_tags, pr_users');
  await pool.query(SCHEMA);
}

const refused = (code) => (error) => {
  assert.equal(error.code, code, error.message);
  return true;
};
const checks = {};

checks.records = async () => {
  await fresh();
  const ada = await prisma.user.create({ data: {
    email: 'ada@example.com', name: 'Ada', score: '12.50',
    posts: { create: [{ title: 'one', weight: 0.5, raw: Uint8Array.of(0, 255), tags: { create: [{ name: 'red' }, { name: 'blue' }] } }, { title: 'two', shown: true }] },
  }, include: { posts: { include: { tags: { orderBy: { name: 'asc' } } }, orderBy: { id: 'asc' } } } });
  assert.deepEqual([ada.role, ada.score.toString()], ['READER', '12.5']);
  assert.deepEqual(ada.posts.map((post) => [post.title, post.tags.map((tag) => tag.name)]), [['one', ['blue', 'red']], ['two', []]]);
  assert.deepEqual([...ada.posts[0].raw], [0, 255]);
  assert.ok(Math.abs(ada.made - new Date()) < 60_000);
  const changed = await prisma.user.update({ where: { email: 'ada@example.com' }, data: { role: 'WRITER', score: { increment: 1 }, posts: { updateMany: { where: { shown: true }, data: { title: 'second' } } } }, include: { _count: { select: { posts: true } } } });
  assert.deepEqual([changed.role, changed.score.toString(), changed._count.posts], ['WRITER', '13.5', 2]);
  const upserted = await prisma.user.upsert({ where: { email: 'eve@example.com' }, create: { email: 'eve@example.com' }, update: {} });
  assert.equal((await prisma.user.upsert({ where: { email: 'eve@example.com' }, create: { email: 'no' }, update: { name: 'Eve' } })).id, upserted.id);
  await prisma.user.delete({ where: { id: ada.id } });
  assert.deepEqual([await prisma.post.count(), await prisma.tag.count()], [0, 2]);
};

checks.queries = async () => {
  await fresh();
  await prisma.user.createMany({ data: [{ email: 'a' }, { email: 'b', role: 'WRITER' }, { email: 'a' }], skipDuplicates: true });
  const [a, b] = await prisma.user.findMany({ orderBy: { email: 'asc' } });
  const made = await prisma.post.createManyAndReturn({ data: Array.from({ length: 40 }, (_, n) => ({ title: `t${n}`, shown: n % 2 === 0, weight: n, authorId: n < 30 ? a.id : b.id })) });
  assert.equal(made.length, 40);
  const page = await prisma.post.findMany({ where: { OR: [{ title: { startsWith: 't1' } }, { weight: { gt: 37 } }], NOT: { shown: true }, author: { is: { email: { contains: 'A', mode: 'insensitive' } } } }, orderBy: [{ weight: 'desc' }], skip: 1, take: 3, select: { title: true, author: { select: { email: true } } } });
  assert.deepEqual(page, [{ title: 't17', author: { email: 'a' } }, { title: 't15', author: { email: 'a' } }, { title: 't13', author: { email: 'a' } }]);
  const after = await prisma.post.findMany({ cursor: { id: made[5].id }, take: 2, skip: 1, orderBy: { id: 'asc' } });
  assert.deepEqual(after.map((post) => post.title), ['t6', 't7']);
  const writers = await prisma.user.findMany({ where: { role: { in: ['WRITER'] }, posts: { some: { shown: true }, none: { weight: { lt: 5 } } } } });
  assert.deepEqual(writers.map((user) => user.email), ['b']);
  const groups = await prisma.post.groupBy({ by: ['authorId'], _sum: { weight: true }, _count: { _all: true }, having: { weight: { _avg: { gt: 20 } } }, orderBy: { authorId: 'asc' } });
  assert.deepEqual(groups, [{ authorId: b.id, _sum: { weight: 345 }, _count: { _all: 10 } }]);
  const { _max, _avg } = await prisma.post.aggregate({ _max: { id: true }, _avg: { weight: true } });
  assert.deepEqual([_max.id, _avg.weight], [made[39].id, 19.5]);
  assert.deepEqual((await prisma.post.findMany({ distinct: ['authorId'], orderBy: { id: 'asc' } })).map((post) => post.title), ['t0', 't30']);
  assert.equal((await prisma.post.updateMany({ where: { raw: null }, data: { raw: Uint8Array.of(7) } })).count, 40);
  assert.equal(await prisma.post.count({ where: { raw: Uint8Array.of(7) } }), 40);
  assert.deepEqual(await prisma.$queryRaw`SELECT count(*)::int AS n FROM pr_posts WHERE weight > ${35} AND title = ANY(${['t36', 't2']})`, [{ n: 1 }]);
  assert.equal(await prisma.$executeRaw`DELETE FROM pr_posts WHERE id IN (${Prisma.join([made[0].id, made[1].id])})`, 2);
};

checks.lists = async () => {
  await fresh();
  const a = await prisma.user.create({ data: { email: 'a', marks: [1, 2] } });
  const b = await prisma.user.create({ data: { email: 'b', labels: ['x', 'y z'] } });
  assert.deepEqual([a.labels, a.marks, b.labels, b.marks], [['new'], [1, 2], ['x', 'y z'], []]);
  const emails = async (where) => (await prisma.user.findMany({ where, orderBy: { email: 'asc' } })).map((user) => user.email);
  assert.deepEqual(await emails({ labels: { has: 'x' } }), ['b']);
  assert.deepEqual(await emails({ labels: { hasSome: ['new', 'x'] } }), ['a', 'b']);
  assert.deepEqual(await emails({ labels: { hasEvery: ['x', 'y z'] } }), ['b']);
  assert.deepEqual(await emails({ marks: { equals: [1, 2] } }), ['a']);
  assert.deepEqual(await emails({ marks: { isEmpty: false } }), ['a']);
  const pushed = await prisma.user.update({ where: { id: a.id }, data: { marks: { push: 3 }, labels: { push: ['p', 'q'] } } });
  assert.deepEqual([pushed.marks, pushed.labels], [[1, 2, 3], ['new', 'p', 'q']]);
  assert.deepEqual((await prisma.user.update({ where: { id: a.id }, data: { marks: [] } })).marks, []);
};

checks.transactions = async () => {
  await fresh();
  await prisma.$transaction([prisma.user.create({ data: { email: 'a' } }), prisma.user.create({ data: { email: 'b' } })]);
  await assert.rejects(prisma.$transaction([prisma.user.create({ data: { email: 'c' } }), prisma.user.create({ data: { email: 'a' } })]), refused('P2002'));
  await assert.rejects(prisma.$transaction(async (transaction) => {
    await transaction.user.delete({ where: { email: 'a' } });
    throw new Error('back');
  }, { isolationLevel: 'Serializable' }), /back/);
  assert.equal(await prisma.user.count(), 2);
  await assert.rejects(prisma.post.create({ data: { title: 'x', authorId: 99 } }), refused('P2003'));
  await assert.rejects(prisma.user.update({ where: { id: 99 }, data: { name: 'x' } }), refused('P2025'));
};

run(checks, async () => {
  await prisma.$disconnect();
  await pool.end();
});
