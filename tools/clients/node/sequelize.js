// Sequelize: models, synchronisation, associations, transactions, what it reads of a schema.
'use strict';

const assert = require('node:assert/strict');
const { DataTypes, Op, Sequelize, fn, col, literal } = require('sequelize');
const run = require('./tap');

const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env;
const sequelize = new Sequelize(PGDATABASE, PGUSER, PGPASSWORD, { host: PGHOST, port: Number(PGPORT), dialect: 'postgres', logging: false });

const Owner = sequelize.define('Owner', {
  name: { type: DataTypes.STRING(50), allowNull: false, unique: true },
  email: { type: DataTypes.STRING, validate: { isEmail: true } },
  score: { type: DataTypes.DECIMAL(8, 3), defaultValue: 1 },
  motto: { type: DataTypes.CHAR(8), defaultValue: 'none' },
  key: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
}, { tableName: 'sq_owners' });
const Pet = sequelize.define('Pet', {
  id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
  name: DataTypes.TEXT,
  born: DataTypes.DATEONLY,
  weight: DataTypes.DOUBLE,
  tame: { type: DataTypes.BOOLEAN, allowNull: false, defaultValue: true },
}, { tableName: 'sq_pets', underscored: true, paranoid: true, version: true, indexes: [{ fields: ['name', 'born'] }] });
Owner.hasMany(Pet, { as: 'pets', foreignKey: 'ownerId', onDelete: 'CASCADE' });
Pet.belongsTo(Owner, { as: 'owner', foreignKey: 'ownerId' });

const fresh = () => sequelize.sync({ force: true });
const checks = {};

checks.connecting = async () => {
  await sequelize.authenticate();
  assert.match(await sequelize.databaseVersion(), /^\d+\.\d+/);
};

checks.schema = async () => {
  await fresh();
  const queries = sequelize.getQueryInterface();
  const columns = await queries.describeTable('sq_pets');
  assert.deepEqual(Object.entries(columns).map(([name, about]) => [name, about.type, about.allowNull, about.primaryKey]), [
    ['id', 'BIGINT', false, true], ['name', 'TEXT', true, false], ['born', 'DATE', true, false],
    ['weight', 'DOUBLE PRECISION', true, false], ['tame', 'BOOLEAN', false, false],
    ['created_at', 'TIMESTAMP WITH TIME ZONE', false, false], ['updated_at', 'TIMESTAMP WITH TIME ZONE', false, false],
    ['deleted_at', 'TIMESTAMP WITH TIME ZONE', true, false], ['version', 'INTEGER', false, false], ['owner_id', 'INTEGER', true, false],
  ]);
  const indexes = await queries.showIndex('sq_pets');
  assert.deepEqual(indexes.map((index) => [index.name, index.fields.map((field) => field.attribute), index.unique, index.primary]).sort(), [
    ['sq_pets_name_born', ['name', 'born'], false, false], ['sq_pets_pkey', ['id'], true, true]]);
  const references = await queries.getForeignKeyReferencesForTable('sq_pets');
  assert.deepEqual(references.map((key) => [key.columnName, key.referencedTableName, key.referencedColumnName]), [['owner_id', 'sq_owners', 'id']]);
  assert.ok((await queries.showAllTables()).includes('sq_pets'));
};

checks.altered_schema = async () => {
  await fresh();
  await Owner.create({ name: 'before' });
  await sequelize.sync({ alter: true });
  const queries = sequelize.getQueryInterface();
  await queries.addColumn('sq_owners', 'extra', { type: DataTypes.INTEGER, defaultValue: 7 });
  await queries.changeColumn('sq_owners', 'extra', { type: DataTypes.BIGINT });
  await queries.renameColumn('sq_owners', 'extra', 'more');
  await queries.addIndex('sq_owners', ['more'], { unique: true });
  await queries.addConstraint('sq_owners', { fields: ['more'], type: 'check', where: { more: { [Op.gt]: 0 } }, name: 'sq_owners_more' });
  assert.deepEqual(await sequelize.query('SELECT name, more FROM sq_owners', { type: 'SELECT' }), [{ name: 'before', more: '7' }]);
  await queries.removeConstraint('sq_owners', 'sq_owners_more');
  await queries.removeColumn('sq_owners', 'more');
};

checks.models = async () => {
  await fresh();
  const ada = await Owner.create({ name: 'Ada', email: 'ada@example.com', motto: 'x', pets: [{ name: 'Rex', born: '2020-02-29', weight: 2.5 }] }, { include: 'pets' });
  assert.equal(ada.pets[0].id, '1');
  await Pet.bulkCreate([{ name: 'Tom', ownerId: ada.id }, { name: 'Ann', ownerId: ada.id, tame: false }], { returning: true });
  const found = await Owner.findOne({ where: { name: { [Op.iLike]: 'ad%' } }, include: { association: 'pets', where: { tame: true }, required: false }, order: [['pets', 'name', 'DESC']] });
  assert.deepEqual([found.motto, found.score, found.pets.map((pet) => pet.name)], ['x       ', '1.000', ['Tom', 'Rex']]);
  assert.equal(found.pets[1].born, '2020-02-29');
  assert.deepEqual((await Owner.findAll({ where: { motto: 'x', key: { [Op.ne]: null } } })).length, 1);
  await found.pets[0].update({ name: 'Thomas' });
  assert.equal((await Pet.findOne({ where: { name: 'Thomas' } })).version, 1);
  await found.pets[0].destroy();
  assert.equal(await Pet.count(), 2);
  assert.equal(await Pet.count({ paranoid: false }), 3);
  await found.pets[0].restore();
  const { rows, count } = await Pet.findAndCountAll({ order: [['name', 'ASC']], limit: 2, offset: 1, include: 'owner' });
  assert.deepEqual([rows.map((pet) => pet.owner.name), count], [['Ada', 'Ada'], 3]);
  const [owner, created] = await Owner.findCreateFind({ where: { name: 'Eve' }, defaults: { score: '2.5' } });
  assert.deepEqual([owner.score, created], ['2.500', true]);
  const [upserted] = await Owner.upsert({ name: 'Eve', score: '3' }, { conflictFields: ['name'] });
  assert.deepEqual([upserted.id, upserted.score], [owner.id, '3.000']);
  const totals = await Pet.findAll({ attributes: ['tame', [fn('COUNT', col('id')), 'n'], [literal('max(weight)'), 'most']], group: ['tame'], order: ['tame'], raw: true });
  assert.deepEqual(totals, [{ tame: false, n: '1', most: null }, { tame: true, n: '2', most: 2.5 }]);
  await Owner.increment({ score: 2 }, { where: { name: 'Eve' } });
  assert.equal((await owner.reload()).score, '5.000');
  await ada.destroy();
  assert.equal(await Pet.count({ paranoid: false }), 0);
};

checks.transactions = async () => {
  await fresh();
  await assert.rejects(sequelize.transaction(async (transaction) => {
    await Owner.create({ name: 'gone' }, { transaction });
    throw new Error('back');
  }), /back/);
  assert.equal(await Owner.count(), 0);
  await sequelize.transaction({ isolationLevel: 'REPEATABLE READ' }, async (transaction) => {
    await Owner.create({ name: 'kept' }, { transaction });
    const locked = await Owner.findAll({ transaction, lock: transaction.LOCK.UPDATE });
    assert.equal(locked.length, 1);
    await sequelize.transaction({ transaction }, async (inner) => {
      await Owner.create({ name: 'kept' }, { transaction: inner });
    }).catch((error) => assert.equal(error.name, 'SequelizeUniqueConstraintError'));
    await Owner.create({ name: 'after' }, { transaction });
  });
  assert.equal(await Owner.count(), 2);
  await assert.rejects(Owner.create({ name: 'kept' }), (error) => error.name === 'SequelizeUniqueConstraintError' && error.errors[0].path === 'name');
  await assert.rejects(Pet.create({ name: 'x', ownerId: 99 }), (error) => error.name === 'SequelizeForeignKeyConstraintError' && error.table === 'sq_pets');
};

run(checks, () => sequelize.close());
