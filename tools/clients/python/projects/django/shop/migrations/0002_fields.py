"""Fields that come, with defaults and without, and change their names and types."""

import uuid

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]
    operations = [
        migrations.AddField("author", "born", models.DateField(null=True)),
        migrations.AddField("author", "created", models.DateTimeField(db_default=Now())),
        migrations.AddField("author", "slug", models.SlugField(max_length=60, null=True)),
        migrations.AlterField("author", "name", models.CharField(max_length=120, db_index=True)),
        migrations.RenameField("book", "name", "title"),
        migrations.AlterField("book", "title", models.TextField()),
        migrations.AlterField("book", "pages", models.IntegerField(default=100)),
        migrations.AddField("book", "price", models.DecimalField(max_digits=9, decimal_places=2, default=5)),
        migrations.AddField("book", "key", models.UUIDField(default=uuid.uuid4)),
        migrations.AddField("book", "printed", models.BooleanField(default=False)),
        migrations.AddField("book", "weight", models.FloatField(null=True)),
        migrations.AlterField("book", "author", models.ForeignKey(
            on_delete=django.db.models.deletion.CASCADE, related_name="books", to="shop.author")),
    ]
