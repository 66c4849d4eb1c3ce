"""The tables as they are after the last migration."""

import uuid

from django.db import models
from django.db.models.functions import Now


class Author(models.Model):
    name = models.CharField(max_length=120, db_index=True)
    born = models.DateField(null=True)
    slug = models.SlugField(max_length=60, unique=True)
    created = models.DateTimeField(db_default=Now())


class Tag(models.Model):
    word = models.CharField(max_length=20, primary_key=True)


class Book(models.Model):
    title = models.TextField()
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=9, decimal_places=2, default=5)
    pages = models.IntegerField(default=100)
    key = models.UUIDField(default=uuid.uuid4)
    printed = models.BooleanField(default=False)
    weight = models.FloatField(null=True)
    tags = models.ManyToManyField(Tag)

    class Meta:
        indexes = [models.Index(fields=["author", "-price"], name="shop_book_author_price")]
        constraints = [
            models.CheckConstraint(condition=models.Q(price__gte=0), name="shop_book_price"),
            models.UniqueConstraint(fields=["author", "title"], name="shop_book_title"),
        ]
