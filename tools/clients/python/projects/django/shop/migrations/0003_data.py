"""Amounts move from one field to another, and names become slugs."""

from django.db import migrations, models
from django.db.models import F
from django.utils.text import slugify


def forwards(apps, schema_editor):
    book, author = apps.get_model("shop", "Book"), apps.get_model("shop", "Author")
    book.objects.update(price=F("cents") / 100.0)
    authors = list(author.objects.iterator(chunk_size=100))
    for each in authors:
        each.slug = slugify(f"{each.name} {each.pk}")
    author.objects.bulk_update(authors, ["slug"], batch_size=50)


def backwards(apps, schema_editor):
    apps.get_model("shop", "Book").objects.update(cents=F("price") * 100)


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_fields")]
    operations = [migrations.RunPython(forwards, backwards)]
