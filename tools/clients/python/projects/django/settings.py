"""Django over psycopg, with its own applications beside the one that is migrated."""

import os

SECRET_KEY = "checks"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ["PGDATABASE"],
    "USER": os.environ["PGUSER"],
    "PASSWORD": os.environ["PGPASSWORD"],
    "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"],
}}
