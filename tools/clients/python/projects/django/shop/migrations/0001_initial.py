"""The first tables."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel("Author", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=40)),
            ("fax", models.CharField(max_length=20, default="none")),
        ]),
        migrations.CreateModel("Book", [
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("name", models.CharField(max_length=80)),
            ("author", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to="shop.author")),
            ("cents", models.IntegerField(default=0)),
            ("pages", models.CharField(max_length=10)),
        ]),
    ]
