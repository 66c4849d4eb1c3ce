import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Marks a static method without arguments as a check; what it throws is its failure. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@interface Check {}
