"""Django's migrations over psycopg: forwards and backwards, with rows, and what it reads back of the tables."""

import io
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "projects/django"))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from tap import check, equal, run

django.setup()
from django.contrib.auth.models import Group, Permission, User
from shop.models import Author, Book, Tag


def manage(*words: str, **options) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=out, no_color=True, **options)
    return out.getvalue()


def migrate(to: str | None = None) -> None:
    # What is made with it, as the permissions of models, comes after the last migration.
    manage("migrate", *(["shop", to] if to else []), interactive=False, verbosity=0)


def models(migration: str):
    """The models as they are after a migration."""
    return MigrationExecutor(connection).loader.project_state(("shop", migration)).apps


def fresh(to: str) -> None:
    """Tables as that migration leaves them, with authors and books in the first version's fields."""
    migrate("zero")
    migrate("0001")
    apps = models("0001_initial")
    author, book = apps.get_model("shop", "Author"), apps.get_model("shop", "Book")
    author.objects.bulk_create([author(name=f"Author {n}") for n in range(20)])
    ids = list(author.objects.order_by("id").values_list("id", flat=True))
    book.objects.bulk_create([book(name=f"Book {n}", author_id=ids[n % 20], cents=n * 10, pages=str(n))
                              for n in range(500)])
    migrate(None if to == "last" else to)


def shape() -> dict[str, list]:
    """Columns and constraints of the application's tables."""
    found = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            if table.startswith("shop_"):
                columns = connection.introspection.get_table_description(cursor, table)
                constraints = connection.introspection.get_constraints(cursor, table)
                found[table] = (
                    sorted((column.name, connection.introspection.get_field_type(column.type_code, column),
                            column.null_ok, column.display_size) for column in columns),
                    sorted((name, each["columns"], each["unique"], each["check"], each["foreign_key"], each["index"])
                           for name, each in constraints.items()))
    return found


@check
def forwards():
    fresh("last")
    equal(manage("showmigrations", "shop").count("[X]"), 4)
    equal(str(sum(Book.objects.values_list("price", flat=True))), "12475.00")
    equal(Book.objects.filter(pages__lt=100, printed=False, weight=None).count(), 100)
    equal(Author.objects.filter(slug__startswith="author-").count(), 20)
    equal(Book.objects.values("key").distinct().count(), 1)
    assert Author.objects.order_by("created").first().created is not None


@check
def no_changes():
    fresh("last")
    equal(manage("makemigrations", check=True, dry_run=True), "No changes detected\n")
    equal(manage("migrate", check_unapplied=True, plan=True).splitlines()[1], "  No planned migration operations.")


@check
def backwards():
    # Each migration back and forth again leaves what was there.
    fresh("0001")
    shapes = {}
    for migration in ("0001", "0002", "0003"):
        migrate(migration)
        shapes[migration] = shape()
    migrate()
    last = shape()
    for migration in ("0003", "0002", "0001"):
        migrate(migration)
        equal(shape(), shapes[migration])
    equal(sum(models("0001_initial").get_model("shop", "Book").objects.values_list("cents", flat=True)), 1247500)
    migrate()
    equal(shape(), last)
    migrate("zero")
    equal(shape(), {})


@check
def inspection():
    fresh("last")
    found = manage("inspectdb", "shop_author", "shop_book", "shop_book_tags", "shop_tag")
    for line in (
        "class ShopBook(models.Model):",
        "    id = models.BigAutoField(primary_key=True)",
        "    title = models.TextField()",
        "    price = models.DecimalField(max_digits=9, decimal_places=2)",
        "    pages = models.IntegerField()",
        "    key = models.UUIDField()",
        "    printed = models.BooleanField()",
        "    weight = models.FloatField(blank=True, null=True)",
        "    author = models.ForeignKey(ShopAuthor, models.DO_NOTHING)",
        "        unique_together = (('author', 'title'),)",
        "    slug = models.CharField(unique=True, max_length=60)",
        "    created = models.DateTimeField()",
        "    word = models.CharField(primary_key=True, max_length=20)",
        "        unique_together = (('book', 'tag'),)",
    ):
        assert line in found.splitlines(), f"{line!r} is not in\n{found}"


@check
def rows():
    # What the migrated tables are for: objects and what holds them together.
    fresh("last")
    author = Author.objects.create(name="Murasaki", slug="murasaki")
    book = Book.objects.create(title="Genji", author=author, price="12.50")
    book.tags.set([Tag.objects.create(word="old"), Tag.objects.create(word="long")])
    tagged = Book.objects.filter(tags__word__in=["old", "long"]).distinct()
    equal(list(tagged.values_list("title", flat=True)), ["Genji"])
    for wrong in ({"title": "Genji", "price": 1}, {"title": "Diary", "price": -1}):
        try:
            Book.objects.create(author=author, **wrong)
        except IntegrityError as error:
            assert error.__cause__.sqlstate in ("23505", "23514"), error
        else:
            raise AssertionError(f"{wrong} was taken")
    equal(author.delete()[0], 4)


@check
def references():
    # Django's foreign keys are checked at the end of a transaction, or when they are asked about.
    fresh("last")
    with transaction.atomic():
        book = Book.objects.create(title="Pillow", author_id=10**6)
        Author.objects.create(pk=10**6, name="Sei", slug="sei")
        connection.check_constraints()
    equal(Book.objects.get(pk=book.pk).author.name, "Sei")
    for checks in (lambda: None, connection.check_constraints):
        try:
            with transaction.atomic():
                with transaction.atomic():
                    Book.objects.create(title="Lost", author_id=10**6 + 1)
                checks()
        except IntegrityError as error:
            equal(error.__cause__.sqlstate, "23503")
        else:
            raise AssertionError("a book without an author was taken")
    equal(Book.objects.filter(title="Lost").count(), 0)


@check
def applications():
    # Django's own tables: users, groups, permissions.
    migrate()
    User.objects.filter(username="genji").delete()
    Group.objects.filter(name="readers").delete()
    user, group = User.objects.create_user("genji", password="x"), Group.objects.create(name="readers")
    group.permissions.set(Permission.objects.filter(content_type__app_label="auth"))
    user.groups.add(group)
    assert User.objects.get(pk=user.pk).has_perm("auth.add_user")
    equal(manage("check", databases=["default"]), "System check identified no issues (0 silenced).\n")


if __name__ == "__main__":
    sys.exit(run())
