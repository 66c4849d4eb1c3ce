"""Fields go; indexes, constraints and a table between two others come."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0003_data")]
    operations = [
        migrations.RemoveField("book", "cents"),
        migrations.RemoveField("author", "fax"),
        migrations.AlterField("author", "slug", models.SlugField(max_length=60, unique=True)),
        migrations.AddIndex("book", models.Index(fields=["author", "-price"], name="shop_book_author_price")),
        migrations.AddConstraint("book", models.CheckConstraint(
            condition=models.Q(price__gte=0), name="shop_book_price")),
        migrations.AddConstraint("book", models.UniqueConstraint(fields=["author", "title"], name="shop_book_title")),
        migrations.CreateModel("Label", [
            ("word", models.CharField(max_length=20, primary_key=True, serialize=False)),
        ]),
        migrations.RenameModel("Label", "Tag"),
        migrations.AddField("book", "tags", models.ManyToManyField(to="shop.tag")),
    ]
