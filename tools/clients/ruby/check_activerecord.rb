# ActiveRecord as Debian packages it: migrations, models, associations, queries, transactions, locks.
require "active_record"
require "logger"

DATABASE = {
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"], username: ENV["PGUSER"], password: ENV["PGPASSWORD"],
  database: ENV["PGDATABASE"], sslmode: "disable", pool: 16
}.freeze
ActiveRecord::Base.establish_connection(DATABASE)
ActiveRecord::Migration.verbose = false

class Shop < ActiveRecord::Base
  self.table_name = "ar_shops"
  has_many :items, dependent: :destroy
  has_many :makers, -> { distinct }, through: :items
  validates :name, presence: true, uniqueness: true
end

class Maker < ActiveRecord::Base
  self.table_name = "ar_makers"
end

class Item < ActiveRecord::Base
  self.table_name = "ar_items"
  belongs_to :shop, counter_cache: true
  belongs_to :maker, optional: true
  enum kind: { fresh: 0, used: 1 }
  scope :dear, -> { where("price > ?", 10) }
end

class MakeTables < ActiveRecord::Migration[6.1]
  def change
    create_table :ar_makers, id: :uuid do |t|
      t.string :name, limit: 40
      t.string :towns, limit: 20, array: true, default: [], null: false
      t.integer :sizes, array: true
    end
    create_table :ar_shops do |t|
      t.string :name, null: false, index: { unique: true }
      t.integer :items_count, default: 0, null: false
      t.integer :lock_version, default: 0, null: false
      t.timestamps
    end
    create_table :ar_items, comment: "what is sold" do |t|
      t.references :shop, null: false, foreign_key: { to_table: :ar_shops, on_delete: :cascade }
      t.references :maker, type: :uuid, foreign_key: { to_table: :ar_makers }
      t.decimal :price, precision: 8, scale: 2, default: 0
      t.integer :kind, limit: 2, default: 0
      t.boolean :sold, default: false, null: false
      t.date :made
      t.float :weight
      t.binary :raw
      t.text :about
      t.check_constraint "price >= 0", name: "ar_items_price"
    end
  end
end

class ChangeTables < ActiveRecord::Migration[6.1]
  def up
    add_column :ar_items, :stock, :bigint, default: 3, null: false
    rename_column :ar_items, :about, :words
    change_column :ar_items, :kind, :integer
    change_column_default :ar_items, :weight, from: nil, to: 1.5
    change_column_null :ar_items, :made, true
    add_index :ar_items, [:made, :price], name: "ar_items_made", where: "made IS NOT NULL" if ENV["PARTIAL_INDEXES"]
    add_index :ar_items, [:made, :price], name: "ar_items_made" unless ENV["PARTIAL_INDEXES"]
    remove_check_constraint :ar_items, name: "ar_items_price"
  end

  def down
    remove_index :ar_items, name: "ar_items_made"
    rename_column :ar_items, :words, :about
    remove_column :ar_items, :stock
  end
end

def fresh
  connection = ActiveRecord::Base.connection
  %w[ar_items ar_shops ar_makers].each { |table| connection.drop_table(table, if_exists: true) }
  MakeTables.migrate(:up)
  [Shop, Item, Maker].each(&:reset_column_information)
end

def equal(found, expected)
  raise "found #{found.inspect[0, 500]}, expected #{expected.inspect[0, 500]}" unless found == expected
end

def raises(kind)
  yield
rescue kind => error
  error
else
  raise "no #{kind}"
end

CHECKS = {
  "migrations" => lambda {
    fresh
    connection = ActiveRecord::Base.connection
    equal connection.columns("ar_items").map { |c| [c.name, c.sql_type, c.null] }, [
      ["id", "bigint", false], ["shop_id", "bigint", false], ["maker_id", "uuid", true], ["price", "numeric(8,2)", true],
      ["kind", "smallint", true], ["sold", "boolean", false], ["made", "date", true], ["weight", "double precision", true],
      ["raw", "bytea", true], ["about", "text", true]
    ]
    equal connection.table_comment("ar_items"), "what is sold"
    equal connection.foreign_keys("ar_items").map { |k| [k.to_table, k.column, k.on_delete] }.sort_by(&:first),
          [["ar_makers", "maker_id", nil], ["ar_shops", "shop_id", :cascade]]
    equal connection.check_constraints("ar_items").map(&:name), ["ar_items_price"]
    ChangeTables.migrate(:up)
    Item.reset_column_information
    equal Item.column_names.last(2), %w[words stock]
    equal connection.indexes("ar_items").map { |i| [i.name, i.columns, i.unique] }.sort, [
      ["ar_items_made", %w[made price], false], ["index_ar_items_on_maker_id", ["maker_id"], false],
      ["index_ar_items_on_shop_id", ["shop_id"], false]
    ]
    equal connection.primary_key("ar_items"), "id"
    ChangeTables.migrate(:down)
    dumped = StringIO.new
    ActiveRecord::SchemaDumper.dump(connection, dumped)
    equal dumped.string.scan(/create_table "(ar_\w+)"/).flatten, %w[ar_items ar_makers ar_shops]
  },
  "records" => lambda {
    fresh
    maker = Maker.create!(name: "Ma'ker")
    equal Maker.find(maker.id).name, "Ma'ker"
    shop = Shop.create!(name: "first")
    item = shop.items.create!(price: "12.50", maker: maker, kind: :used, made: Date.new(2024, 2, 29), weight: 0.5, raw: "\x00\xFF".b, about: "ü\n")
    found = Item.includes(:shop, :maker).find(item.id)
    equal [found.price, found.kind, found.made, found.weight, found.raw, found.about, found.maker, found.shop.name],
          [BigDecimal("12.5"), "used", Date.new(2024, 2, 29), 0.5, "\x00\xFF".b, "ü\n", maker, "first"]
    equal shop.reload.items_count, 1
    item.update!(sold: true)
    equal Item.where(sold: true).pluck(:id), [item.id]
    raises(ActiveRecord::RecordInvalid) { Shop.create!(name: "first") }
    stale = Shop.find(shop.id)
    shop.update!(name: "renamed")
    raises(ActiveRecord::StaleObjectError) { stale.update!(name: "late") }
    shop.reload.destroy!
    equal [Item.count, Shop.exists?(shop.id)], [0, false]
    raises(ActiveRecord::RecordNotFound) { Shop.find(shop.id) }
  },
  "arrays" => lambda {
    fresh
    equal Maker.columns.last(2).map { |c| [c.name, c.sql_type, c.array, c.null] },
          [["towns", "character varying(20)", true, false], ["sizes", "integer", true, true]]
    first = Maker.create!(name: "first", towns: ["a b", "c,\"d"], sizes: [1, nil])
    Maker.create!(name: "second")
    equal [first.reload.towns, first.sizes, Maker.find_by(name: "second").towns], [["a b", "c,\"d"], [1, nil], []]
    first.towns << "e"
    first.save!
    equal Maker.where("? = ANY (towns)", "e").pluck(:name), ["first"]
    equal Maker.where("towns @> ARRAY[?]::varchar[]", ["e", "a b"]).pluck(:name), ["first"]
    equal Maker.where("sizes = ?", "{1,NULL}").pluck(:name) + Maker.where("cardinality(towns) = 0").pluck(:name), %w[first second]
    equal Maker.order(:towns).pluck(:name), %w[second first]
  },
  "queries" => lambda {
    fresh
    a, b = %w[a b].map { |name| Shop.create!(name: name) }
    now = Time.utc(2024, 5, 6, 7, 8, 9)
    Item.insert_all!((0...100).map { |n| { shop_id: (n % 4 == 0 ? a : b).id, price: n, kind: n % 2, made: now.to_date + n % 3 } })
    equal Item.dear.joins(:shop).where(shop: { name: "a" }).count, 22
    equal Item.group(:kind).sum(:price), { "fresh" => 2450, "used" => 2500 }
    equal Item.joins(:shop).group("ar_shops.name").order("ar_shops.name").average(:price).transform_values(&:to_f), { "a" => 48.0, "b" => 50.0 }
    equal Item.where(price: 10..12).or(Item.where(price: [90, 95])).order(price: :desc).pluck(:price).map(&:to_i), [95, 90, 12, 11, 10]
    equal Item.where.not(made: nil).where(made: now.to_date).limit(2).offset(1).order(:price).map { |item| item.price.to_i }, [3, 6]
    equal Shop.left_joins(:items).where(items: { id: nil }).count, 0
    equal Shop.where(id: Item.select(:shop_id).where("price > 97")).order(:id).pluck(:name), ["b"]
    equal Item.find_each(batch_size: 30).count, 100
    equal Item.where("price < 5").update_all("price = price + 1000"), 5
    equal Shop.upsert({ id: a.id, name: "changed", created_at: now, updated_at: now }, unique_by: :id).length, 1
    equal a.reload.name, "changed"
    equal Item.distinct.pluck(:kind).sort, %w[fresh used]
    equal Item.where("price > :low", low: 1000).delete_all, 4
    equal Item.maximum(:price).to_i, 1000
    equal Item.order(:price).first.price.to_i, 5
    equal Shop.find_or_create_by!(name: "c").persisted?, true
  },
  "transactions" => lambda {
    fresh
    raises(RuntimeError) do
      Shop.transaction do
        Shop.create!(name: "gone")
        raise "back"
      end
    end
    Shop.transaction(isolation: :serializable) do
      Shop.create!(name: "outer")
      Shop.transaction(requires_new: true) do
        Shop.create!(name: "inner")
        raise ActiveRecord::Rollback
      end
      raises(ActiveRecord::RecordNotUnique) { Shop.transaction(requires_new: true) { Shop.insert_all!([{ name: "outer", created_at: Time.now, updated_at: Time.now }]) } }
    end
    equal Shop.pluck(:name), ["outer"]
    shop = Shop.first
    shop.with_lock { shop.update!(name: "locked") }
    raises(ActiveRecord::InvalidForeignKey) { Item.insert_all!([{ shop_id: -1 }]) }
    raises(ActiveRecord::NotNullViolation) { Item.insert_all!([{ shop_id: nil }]) }
    raises(ActiveRecord::ValueTooLong) { Maker.create!(name: "x" * 41) }
    raises(ActiveRecord::RangeError) { Item.connection.execute("UPDATE ar_shops SET items_count = 3000000000") }
    threads = Array.new(8) { Thread.new { 10.times { Shop.update_counters(shop.id, items_count: 1) }; ActiveRecord::Base.connection.close } }
    threads.each(&:join)
    equal shop.reload.items_count, 80
    equal ActiveRecord::Base.connection.get_advisory_lock(77), true
    equal ActiveRecord::Base.connection.release_advisory_lock(77), true
  }
}.freeze

names = ARGV.empty? ? CHECKS.keys : ARGV
puts "1..#{names.length}"
$stdout.sync = true
good = names.map do |name|
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  CHECKS.fetch(name).call
  puts format("ok - %s # %.2f s", name, Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
  true
rescue StandardError => error
  where = error.backtrace.find { |line| line.include?(__FILE__) }
  puts "not ok - #{name}", "#{error.class}: #{error.message}\n#{where}".lines.first(20).map { |line| "# #{line.chomp}" }
  false
end
exit(good.all?)
